#!/usr/bin/env bash
# Runs tests in a virtual machine of a processor (amd64 or arm64), emulated: with Debian's kernel, its
# programs, and cgroups of version 2 alone, none of which the machine may have where tests run otherwise.
#
#	internal/tools/test-on-debian.sh arm64 ./workload/process ...
#
# Root makes the machine, once, in .cache. A test that builds a program finds it built: there is no compiler in there.
set -euo pipefail
cd "$(dirname "$0")/../.."

[ $# -ge 2 ] || { echo "usage: test-on-debian.sh amd64|arm64 PACKAGE ..." >&2; exit 2; }
arch=$1
shift
cache=$PWD/.cache/debian-$arch
case $arch in
amd64) machine="qemu-system-x86_64 -cpu max" console=ttyS0 ;;
arm64) machine="qemu-system-aarch64 -machine virt -cpu max,pauth-impdef=on" console=ttyAMA0 ;;
*) echo "no machine is known for $arch: amd64 and arm64 are" >&2; exit 2 ;;
esac
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fetch() {
	[ "$(id -u)" -eq 0 ] || { echo "a Debian needs root to be made: run this as root" >&2; exit 1; }
	echo "fetching a Debian for $arch"
	rm -rf "$cache"
	mkdir -p "$cache"
	local new=$cache/new
	if ! debootstrap --foreign --arch "$arch" --variant minbase --include "kmod,linux-image-cloud-$arch,procps" \
		bookworm "$new" http://deb.debian.org/debian >"$work/said" 2>&1; then
		tail -n 5 "$work/said" >&2
		echo "no Debian could be fetched: is deb.debian.org reached from here?" >&2
		exit 1
	fi
	# Nothing of another processor is run here, so what was not needed to go on in the machine is only unpacked.
	for package in "$new"/var/cache/apt/archives/*.deb; do
		dpkg-deb --fsys-tarfile "$package" | tar -x --keep-directory-symlink -C "$new"
	done
	(
		cd "$new"
		rm -rf debootstrap dev proc sys tmp usr/share/{doc,i18n,info,locale,man} var/{cache,lib}
		mkdir dev proc sys tmp
		printf '%s\n' root:x:0:0::/root:/bin/sh daemon:x:1:1::/:/bin/sh nobody:x:65534:65534::/:/bin/sh >etc/passwd
		printf '%s\n' root:x:0: daemon:x:1: nogroup:x:65534: >etc/group
		depmod -b . "$(ls lib/modules)"
		mv boot/vmlinuz-* "$cache/vmlinuz"
		rm -rf boot
	)
	mv "$new" "$cache/root"
}
[ -e "$cache/root" ] || fetch

# What comes on top of it: the tests, with their files, and what they build.
mkdir -p "$work/top/programs" "$work/top/usr/local/bin"
export GOARCH=$arch CGO_ENABLED=0
for package in "$@"; do
	mkdir -p "$work/top/tests/$package"
	go test -c -o "$work/top/tests/$package/test" "$package"
	[ ! -d "$package/testdata" ] || cp -r "$package/testdata" "$work/top/tests/$package"
done
for program in ./workload/process/testdata/calls ./workload/workloadtest/testdata/guest; do
	go build -tags netgo -o "$work/top/programs/" "$program"
done
cat >"$work/top/usr/local/bin/go" <<'END'
#!/bin/sh
while [ $# -gt 1 ]; do
	[ "$1" != -o ] || out=$2
	shift
done
exec cp "/programs/$(basename "$1")" "$out"
END
cat >"$work/top/init" <<'END'
#!/bin/sh
# The first root is the kernel's, and no other can be put in its place: what is in it goes on in another.
mkdir -p /mnt/root
mount -t tmpfs -o size=90% root /mnt/root
cp -a /bin /etc /lib* /programs /run-tests /sbin /tests /usr /var /mnt/root
cd /mnt/root
mkdir -p dev mnt proc root run sys
mkdir -pm 1777 tmp
exec switch_root /mnt/root /run-tests
END
cat >"$work/top/run-tests" <<'END'
#!/bin/bash
export PATH=/usr/local/bin:/usr/sbin:/usr/bin HOME=/root
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir /dev/pts
mount -t devpts devpts /dev/pts
for n in "fd /dev/fd" "fd/0 /dev/stdin" "fd/1 /dev/stdout" "fd/2 /dev/stderr"; do
	ln -s /proc/self/$n
done
mount -t cgroup2 cgroup /sys/fs/cgroup
echo "+cpu +cpuset +memory +pids" >/sys/fs/cgroup/cgroup.subtree_control # as beside Docker
modprobe -a fuse nfnetlink overlay
echo 3 >/proc/sys/kernel/printk
status=0
for test in $(find /tests -name test -type f); do
	cd "$(dirname "$test")"
	echo "$(dirname "$test")" on $(uname -rm)
	./test -test.short -test.timeout 30m || status=1
done
echo "the tests end with $status"
echo o >/proc/sysrq-trigger
sleep 60
END
chmod +x "$work"/top/{init,run-tests,usr/local/bin/go}

archive() { (cd "$1" && find . | cpio -o -H newc --quiet | gzip -1); }
{ archive "$cache/root"; archive "$work/top"; } >"$work/initrd"
timeout 45m $machine -smp 2 -m 4096 -display none -serial stdio -monitor none -no-reboot -kernel "$cache/vmlinuz" -initrd "$work/initrd" \
	-append "console=$console quiet panic=-1 cgroup_no_v1=all" </dev/null | tee "$work/said"
grep -q "^the tests end with 0" "$work/said"
