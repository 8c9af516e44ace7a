#!/usr/bin/env bash
# Builds the image without a daemon and tries what README.md beside this file promises. As root on Debian 12 or newer:
#   apt-get install mmdebstrap buildah umoci runc
#   docker/try.sh [arguments of `buildah build`, for example --build-arg TORCH_INDEX=…]
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT

echo "== a Debian without Python as the base"
mmdebstrap --quiet --variant=minbase bookworm "$work/base.tar"
base=$(buildah from scratch)
buildah add --quiet "$base" "$work/base.tar" / >/dev/null
buildah commit --quiet --rm "$base" localhost/infer_app-base >/dev/null

echo "== build"
buildah bud --quiet --isolation chroot --pull-never -f docker/Dockerfile -t localhost/infer_app-try \
    --build-arg BASE_IMAGE=localhost/infer_app-base --build-arg EXTRAS=demo,postgres "$@" .
buildah images localhost/infer_app-try
buildah push --quiet localhost/infer_app-try "oci:$work/image:try"
umoci unpack --image "$work/image:try" "$work/bundle" >/dev/null
install -d -o 10001 -g 10001 "$work/data"
cp "$work/bundle/config.json" "$work/config.json"

# start COMMAND… as docker's --read-only --tmpfs /tmp -v "$work/data:/data" would.
start() {
    python3 - "$work" "$@" <<'END'
import json, sys
work, *command = sys.argv[1:]
config = json.load(open(f"{work}/config.json"))
config["process"].update(terminal=False, args=command)
config["root"]["readonly"] = True
config["mounts"] += [
    {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "nodev", "mode=1777"]},
    {"destination": "/data", "type": "bind", "source": f"{work}/data", "options": ["rbind", "rw"]},
]
json.dump(config, open(f"{work}/bundle/config.json", "w"))
END
    runc run --bundle "$work/bundle" "infer_app-try-$$" </dev/null
}

echo "== as the image's own user, on a read-only root"
start infer --version
# shellcheck disable=SC2016  # the container is to expand it
start sh -c 'test "$(id -u)" = 10001 && ! touch /x 2>/dev/null && ! command -v gcc cc pip'
start infer quickstart demo

echo "== SIGTERM commits what is in flight and ends with 143"
install -d -o 10001 -g 10001 "$work/data/many"
for number in {1..2000}; do
    ln "$work/data/demo/photos/astronaut.png" "$work/data/many/$number.png"
done
start infer images add many --date yesterday --config demo/infer.toml
start infer run --workers 1 --config demo/infer.toml &
sleep 10
runc kill "infer_app-try-$$" TERM
exit_code=0
wait %1 || exit_code=$?
echo "exit code $exit_code"
test "$exit_code" = 143
start infer verify --config demo/infer.toml
