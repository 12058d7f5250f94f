#!/bin/sh
# Fetches what the tests of virtual machines boot: Debian's kernel for them, some of its modules, and
# QEMU's guest agent. Nothing of it is installed; it is in .cache/kernel, and stays.
set -eu

cache=$(cd "$(dirname "$0")/../.." && pwd)/.cache/kernel
modules="virtio_ring virtio virtio_pci_legacy_dev virtio_pci_modern_dev virtio_pci failover net_failover virtio_net virtio_blk virtio_console button evdev"

[ -e "$cache/vmlinuz" ] && exit 0
sudo=""
[ "$(id -u)" -eq 0 ] || sudo="sudo"
new=$cache.$$
said=$(mktemp)
finish() {
	status=$?
	if [ "$status" -ne 0 ]; then
		cat "$said" >&2
		echo "could not fetch linux-image-cloud-amd64 and qemu-guest-agent with apt" >&2
	fi
	rm -rf "$new" "$said"
	exit "$status"
}
trap finish EXIT
mkdir -p "$new/root" "$new/modules"
echo "fetching a kernel for virtual machines"
{
	$sudo apt-get update -qq
	cd "$new"
	# The package depends on that of the newest kernel, before all others.
	kernel=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/^ *Depends: //p' | head -n 1)
	apt-get download -qq "${kernel:-linux-image-cloud-amd64}" qemu-guest-agent # to where it is
	for p in *.deb; do
		dpkg-deb -x "$p" root
	done
	# They are loaded in this order: one stands on those before it.
	n=10
	for m in $modules; do
		mv "$(find root -name "$m.ko")" "modules/$n-$m.ko"
		n=$((n + 1))
	done
	mv root/usr/sbin/qemu-ga .
	mv root/boot/vmlinuz-* vmlinuz
	rm -rf root ./*.deb
	rm -rf "$cache"
	mv "$new" "$cache"
} >"$said" 2>&1
