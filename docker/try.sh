#!/usr/bin/env bash
# Builds the image without a daemon and checks the claims of README.md in this folder. As root on Debian 12 or newer:
#   apt-get install mmdebstrap buildah umoci runc
#   docker/try.sh [arguments of `buildah build`, for example --build-arg TORCH_INDEX=…]
# It uses a temporary folder of some GB; MEMORY_LIMIT=0 skips what needs memory cgroups.
set -euo pipefail
if [[ ${1:-} == -h || ${1:-} == --help ]]; then
    sed -n '2,/^set /{/^set /d; s/^# \{0,1\}//p}' "$0"
    exit 0
fi
cd "$(dirname "$0")/.."

for tool in mmdebstrap buildah umoci runc; do
    command -v "$tool" >/dev/null || { echo "skipped: $tool is missing (apt-get install mmdebstrap buildah umoci runc)"; exit 0; }
done
[[ $(id -u) == 0 ]] || { echo "skipped: containers without a daemon need root here"; exit 0; }

work=$(mktemp -d)
name=infer_app-try-$$
trap clean_up EXIT

clean_up() {
    runc delete --force "$name" 2>/dev/null || true
    if [[ -d $work/images ]]; then
        build_tool rm --all >/dev/null || true
        umount --recursive "$work/images/overlay" 2>/dev/null || true
    fi
    rm -rf -- "$work"
}

log() { printf '== %4d s  %s\n' "$SECONDS" "$*"; }

# A storage of its own: the user's images are not touched, and nothing is left over.
build_tool() { buildah --root "$work/images" --runroot "$work/runroot" "$@"; }

build() { # EXTRAS TAG [arguments]
    local extras=$1 tag=$2
    shift 2
    build_tool build --quiet --isolation chroot --pull-never --layers -f docker/Dockerfile -t "localhost/$tag" \
        --build-arg BASE_IMAGE=localhost/base --build-arg EXTRAS="$extras" "$@" . >"$work/build.log" ||
        { tail -n 40 "$work/build.log"; exit 1; }
    build_tool images --format '{{.Name}} {{.Size}}' "localhost/$tag"
}

# start COMMAND…: like docker run --read-only --tmpfs /tmp --memory "$memory" -v data:/data -v photos:/photos:ro
memory=0
start() {
    python3 - "$work" "$memory" "$@" <<'PYTHON' || return
import json, sys
work, memory, *command = sys.argv[1:]
config = json.load(open(f"{work}/config.json"))
config["process"].update(terminal=False, args=command)
config["process"]["env"] += ["INFER_IMAGES__MAP=/srv/photos=/photos"]
config["process"]["capabilities"] = {}
config["process"]["noNewPrivileges"] = True
config["root"]["readonly"] = True
bind = lambda name, mode: {"destination": f"/{name}", "type": "bind", "source": f"{work}/{name}", "options": ["rbind", mode]}
config["mounts"] += [
    {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "nodev", "mode=1777"]},
    bind("data", "rw"),
    bind("photos", "ro"),
]
if int(memory):
    config["linux"].setdefault("resources", {})["memory"] = {"limit": int(memory), "swap": int(memory)}
json.dump(config, open(f"{work}/bundle/config.json", "w"))
PYTHON
    runc run --bundle "$work/bundle" "$name" </dev/null
}

# expect_exit CODE COMMAND…
expect_exit() {
    local code=0 wanted=$1
    shift
    "$@" || code=$?
    [[ $code == "$wanted" ]] || { echo "exited with $code instead of $wanted: $*"; exit 1; }
}

# stop_after SECONDS: a run that is process 1 gets SIGTERM and ends with 143.
stop_after() {
    local begun
    start infer run --date today --workers 1 --config demo/infer.toml &
    local run=$!
    sleep "$1"
    runc kill "$name" TERM
    begun=$SECONDS
    expect_exit 143 wait "$run"
    log "SIGTERM after $1 s: exited $((SECONDS - begun)) s later with 143"
}

log "a Debian without Python as the base"
mmdebstrap --quiet --variant=minbase bookworm "$work/base.tar"
base=$(build_tool from scratch)
build_tool add --quiet "$base" "$work/base.tar" / >/dev/null
build_tool commit --quiet --rm "$base" localhost/base >/dev/null

log "build"
build postgres infer_app "$@"
log "build, with the packages of the demo"
build postgres,demo infer_app-demo "$@"
build_tool push --quiet localhost/infer_app-demo "oci:$work/image:try"
umoci unpack --image "$work/image:try" "$work/bundle" >/dev/null
install -d -o 10001 -g 10001 "$work/data" "$work/photos"
cp "$work/bundle/config.json" "$work/config.json"

log "the image's own user, a read-only root, 64 MB of /dev/shm, no compiler, no pip, no cache"
expect_exit 0 start infer --version
# shellcheck disable=SC2016  # expanded in the container
expect_exit 0 start sh -euc '
    test "$(id -u)" = 10001
    test "$IMAGE_EXTRAS" = postgres,demo
    if touch /x 2>/dev/null || touch /opt/infer/x 2>/dev/null; then exit 1; fi
    grep -q " /dev/shm .*size=65536k" /proc/mounts
    if command -v gcc || command -v cc || command -v pip; then exit 1; fi
    test -z "$(ls /var/lib/apt/lists /var/cache/apt /root/.cache 2>/dev/null | grep -v :)"
    python -c "import openvino, psycopg"'
expect_exit 0 start infer quickstart demo

log "snooze executes its command"
expect_exit 0 start snooze -H '*' -M '*' -S '*' infer --version

log "photos recorded under another path; SIGTERM during start-up and during the run"
for number in {1..2000}; do
    ln "$work/data/demo/photos/coffee.png" "$work/photos/$number.png" 2>/dev/null ||
        cp "$work/data/demo/photos/coffee.png" "$work/photos/$number.png"
done
expect_exit 0 start infer images add /photos --date today --config demo/infer.toml
stop_after 2
stop_after 15
expect_exit 0 start infer verify --date today --config demo/infer.toml

if [[ ${MEMORY_LIMIT:-1} != 0 ]]; then
    log "a limit of 1 GB"
    memory=$((1 << 30))
    # shellcheck disable=SC2016
    expect_exit 0 start sh -c 'infer run --date today --config demo/infer.toml --limit 500; code=$?
        cat /sys/fs/cgroup/memory.peak /sys/fs/cgroup/memory/memory.max_usage_in_bytes 2>/dev/null
        exit "$code"'
fi
expect_exit 0 start infer verify --date today --config demo/infer.toml
log "all checks passed"
