#!/usr/bin/env bash
# The daily job: predicts yesterday's new images. Silent when all went well; otherwise it prints what
# happened, which cron mails, and ends with the exit code of `infer run`.
#
#   daily.sh [PROJECT] [flags of `infer run`]
#   daily.sh /srv/photos-project --finish-by 06:00
#
# PROJECT is the folder that holds infer.toml (default: $DAILY_PROJECT, else the current folder).
# `infer` is $DAILY_COMMAND, else that of PROJECT/.venv, else that of the .venv beside jobs/, else that on PATH.
# Variables that begin with INFER_ are settings of the program: they are passed on as they are.
set -euo pipefail

main() {
    local project=${DAILY_PROJECT:-.}
    if [[ ${1:-} != "" && $1 != -* ]]; then
        project=$1
        shift
    fi
    cd -- "$project" || fail "there is no project folder $project: name it as the first argument"

    local infer
    infer=$(find_infer) || fail "infer is not installed in $PWD/.venv, nor beside this script, nor on PATH"
    log=$(mktemp) || fail "no temporary file can be made in ${TMPDIR:-/tmp}"
    trap 'rm -f -- "$log"' EXIT

    local exit_code=0
    run_to_log "$infer" run --date yesterday --quiet "$@" || exit_code=$?
    if ((exit_code != 0)); then
        tell "$exit_code" "$infer" run --date yesterday --quiet "$@"
    fi
    exit "$exit_code"
}

find_infer() {
    local here candidate
    if [[ -n ${DAILY_COMMAND:-} ]]; then
        echo "$DAILY_COMMAND"
        return
    fi
    here=$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")
    for candidate in "$PWD/.venv/bin/infer" "${here%/*}/.venv/bin/infer"; do
        if [[ -x $candidate ]]; then
            echo "$candidate"
            return
        fi
    done
    command -v infer
}

# bash handles no signal while it waits for a command in the foreground. So infer runs in the background, in a
# process group of its own (set -m), and gets each signal exactly once: at the first it commits what is in flight
# and ends with 143, at the second it would end at once.
run_to_log() {
    local infer_pid exit_code signalled=yes
    set -m
    "$@" >"$log" 2>&1 </dev/null &
    infer_pid=$!
    trap 'signalled=yes; kill -TERM "$infer_pid" 2>/dev/null || true' TERM HUP INT
    while [[ $signalled == yes ]]; do # a signal ends `wait` early
        signalled=no
        exit_code=0
        wait "$infer_pid" 2>/dev/null || exit_code=$?
    done
    return "$exit_code"
}

tell() {
    local exit_code=$1 num_lines
    shift
    echo "$(printf '%q ' "$@")in $PWD on $(uname -n)"
    echo "exit code $exit_code: $(meaning "$exit_code")"
    num_lines=$(wc -l <"$log")
    if ((num_lines > 100)); then
        echo "the last 100 of $num_lines lines:"
    fi
    tail -n 100 -- "$log"
    [[ -s $log ]] || echo "what it said is lost: is ${TMPDIR:-/tmp} full?"
}

meaning() {
    case $1 in
        1) echo "the run failed (a bug, or workers that kept dying); the lines below say why" ;;
        2) echo "a wrong flag or setting" ;;
        3) echo "more images were rejected than --max-rejected allows (\`infer rejects\` lists them), or the model failed on most" ;;
        10) echo "the database can't be reached; the next run catches up" ;;
        11) echo "the tables are not up to date; run \`infer db upgrade\`" ;;
        12) echo "the model is missing, changed, or fails its golden images" ;;
        13) echo "another run holds this day, or one before it, and goes on; this one left it alone" ;;
        14) echo "the image storage is unavailable; no image was rejected for it, the next run catches up" ;;
        75) echo "stopped by the time budget; what was done is kept, the next run does the rest" ;;
        126 | 127) echo "the command can't be started" ;;
        137) echo "killed, often because memory ran out; what was committed is kept, the next run does the rest" ;;
        129 | 13[0-9] | 14[0-9] | 15[0-9])
            echo "ended by signal $(($1 - 128)); what was committed is kept, the next run does the rest"
            ;;
        *) echo "not a code that infer gives" ;;
    esac
}

fail() {
    echo "daily.sh: $1" >&2
    exit 2
}

main "$@"
