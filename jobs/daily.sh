#!/usr/bin/env bash
# The daily job: predicts yesterday's new images, and registers first what is new in the folders of `[images] watch`.
# Silent when all went well; otherwise it prints what happened, which cron mails, and ends with the exit code of
# `infer run`. A run that went well but has something to look at, such as images that stopped coming, is mailed too.
#
#   daily.sh [PROJECT] [flags of `infer run`]
#   daily.sh /srv/photos-project --finish-by 06:00
#
# PROJECT is the folder that holds infer.toml (default: $DAILY_PROJECT, else the current folder).
# `infer` is $DAILY_COMMAND, else that of PROJECT/.venv, else that of the .venv beside jobs/, else that on PATH.
# Variables that begin with INFER_ are settings of the program: they are passed on as they are.
set -euo pipefail

# Before it goes to the project: it may be called by a relative path.
here=$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]:-$0}")")

main() {
    local project=${DAILY_PROJECT:-.}
    if [[ ${1:-} != "" && $1 != -* ]]; then
        project=$1
        shift
    fi
    cd -- "$project" || fail "there is no project folder $project: name it as the first argument"

    local infer
    infer=$(find_infer) || fail "infer is not installed in $PWD/.venv, nor beside this script, nor on PATH"
    log=$(mktemp) || fail "can't create a temporary file in ${TMPDIR:-/tmp}"
    trap 'rm -f -- "$log"' EXIT

    local exit_code=0
    run_to_log "$infer" run --date yesterday --quiet "$@" || exit_code=$?
    if ((exit_code != 0)); then
        report_failure "$exit_code" "$infer" run --date yesterday --quiet "$@"
    else
        report_attention "$infer" run --date yesterday --quiet "$@"
    fi
    exit "$exit_code"
}

find_infer() {
    local candidate
    if [[ -n ${DAILY_COMMAND:-} ]]; then
        echo "$DAILY_COMMAND"
        return
    fi
    for candidate in "$PWD/.venv/bin/infer" "${here%/*}/.venv/bin/infer"; do
        if [[ -x $candidate ]]; then
            echo "$candidate"
            return
        fi
    done
    command -v infer
}

# bash handles no signal while it waits for a command in the foreground. So infer runs in the background, in a
# process group of its own (set -m), and gets each signal exactly once: at the first one it commits the chunks in
# progress and exits with 143, at a second one it exits at once. With job control `wait` would also return when infer
# is merely stopped (SIGSTOP), so that is turned off again.
run_to_log() {
    local infer_pid exit_code signalled=yes
    set -m
    "$@" >"$log" 2>&1 </dev/null &
    infer_pid=$!
    set +m
    trap 'signalled=yes; kill -TERM "$infer_pid" 2>/dev/null || true' TERM HUP INT
    while [[ $signalled == yes ]]; do # a signal interrupts `wait`
        signalled=no
        exit_code=0
        wait "$infer_pid" 2>/dev/null || exit_code=$?
    done
    return "$exit_code"
}

# Libraries may write to a successful run's log: only the lines that infer marks are mailed.
report_attention() {
    if grep -q '^attention: ' -- "$log"; then
        echo "$(printf '%q ' "$@")in $PWD on $(uname -n)"
        grep '^attention: ' -- "$log"
    fi
}

report_failure() {
    local exit_code=$1 num_lines
    shift
    echo "$(printf '%q ' "$@")in $PWD on $(uname -n)"
    echo "exit code $exit_code: $(meaning "$exit_code")"
    num_lines=$(wc -l <"$log")
    if ((num_lines > 100)); then
        echo "the last 100 of $num_lines lines:"
    fi
    tail -n 100 -- "$log"
    [[ -s $log || $exit_code -gt 128 ]] || echo "its output is lost: is ${TMPDIR:-/tmp} full?"
}

meaning() {
    case $1 in
        1) echo "the run failed (a bug, or workers that kept dying); see the lines below" ;;
        2) echo "a wrong flag or setting, another table than before, the database of another project, or rows of a day that have no id of their own" ;;
        3) echo "more images were rejected than --max-rejected allows, or the model failed on most; the lines below name the days" ;;
        10) echo "the database can't be reached or written; the next run catches up" ;;
        11) echo "the tables are not up to date; run \`infer db upgrade\`" ;;
        12) echo "the model is missing, changed, or fails its golden images" ;;
        13) echo "another run holds this day or an earlier one and continues; this run left that day out and did the others" ;;
        14) echo "the image storage is unavailable; no image was rejected because of it, the next run catches up" ;;
        74) echo "the machine had no disk space, memory or open files left, or a disk failed; the next run does the rest" ;;
        75) echo "stopped by the time budget; committed results are kept, the next run continues" ;;
        126 | 127) echo "the command can't be started" ;;
        137) echo "killed, often because memory ran out; committed results are kept, the next run continues" ;;
        129 | 13[0-9] | 14[0-9] | 15[0-9])
            echo "ended by signal $(($1 - 128)); committed results are kept, the next run continues"
            ;;
        *) echo "not an exit code of infer" ;;
    esac
}

fail() {
    echo "daily.sh: $1" >&2
    exit 2
}

main "$@"
