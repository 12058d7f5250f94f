#!/bin/sh
# Makes a directory with a new Debian, as its installer leaves one: what a package needs that only
# older machines have shows there. With sudo, which the installer sets up for the first user.
set -eu

dir=$1
[ -e "$dir/complete" ] && exit 0
[ "$(id -u)" -eq 0 ] || { echo "a new Debian needs root to be made: run this as root" >&2; exit 1; }
rm -rf "$dir"
mkdir -p "$dir"
log=$(mktemp)
echo "fetching a new Debian"
if ! debootstrap --include=sudo bookworm "$dir/root" http://deb.debian.org/debian >"$log" 2>&1; then
	tail -n 5 "$log" >&2
	rm -f "$log"
	echo "no new Debian could be fetched: is deb.debian.org reached from here?" >&2
	exit 1
fi
rm -f "$log" "$dir"/root/var/cache/apt/archives/*.deb
touch "$dir/complete"
