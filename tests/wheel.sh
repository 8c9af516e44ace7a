#!/usr/bin/env bash
# The wheel of dist/ in an empty environment, away from this clone: the quickstart, the commands that it prints, and the one
# that installs an extra. `tests/wheel.sh [INDEX]`: where torch comes from.
set -euo pipefail
wheel=$(realpath "$(dirname "$0")"/../dist/infer_app-*.whl)
work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT
mkdir "$work/home" "$work/lab"
cd "$work/lab"

"${PYTHON:-python3}" -m venv "$work/env"
"$work/env/bin/pip" install --quiet ${1:+--index-url "$1"} torch==2.13.0
"$work/env/bin/pip" install --quiet "${wheel}[demo]"
alone() { env -i PATH="$work/env/bin:/usr/bin:/bin" HOME="$work/home" "$@"; }

expect() { # PATTERN FILE
    grep -qE -- "$1" "$2" || { echo "not said: $1"; cat "$2"; exit 1; }
}

alone infer --version >said
expect '^infer_app [0-9.]+$' said
alone infer quickstart demo | tee said
expect ' = [1-9][0-9]* predicted \+ 1 rejected \+ 0 pending' said

cd demo
printed=$(sed -n 's/^  \(infer [^#]*\).*/\1/p' ../said)
test -n "$printed"
while read -r command; do
    echo "\$ $command"
    # shellcheck disable=SC2086  # its words
    alone $command
done <<<"$printed"

alone infer doctor >said
install=$(sed -n 's/^ *fix: \(.* -m pip install .*pillow-heif.*\)/\1/p' said)
expect 'HEIC' said
bash -c "$install --quiet"
alone infer doctor >said
if grep HEIC said; then exit 1; fi
