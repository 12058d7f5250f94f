#!/usr/bin/env bash
# Checks all example plugins against the contract, with what make build made. Drivers start tasks
# where the machine has what they run, and say so where it has not; with CI=true or
# WASMNODE_STRICT=1 that fails, too. Exits non-zero when a check fails.
set -euo pipefail
cd "$(dirname "$0")/../.."

home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT
mkdir "$home/devices"
printf 'gpu' >"$home/devices/gpu-0"
programs=$PWD/bin/programs
failed=0

# conform checks a plugin, and prints what is not well and the summary.
conform() {
	local name=$1
	shift
	if ! bin/wasmnode plugin conform "$@" "bin/plugins/$name.wasm" >"$home/report"; then
		grep '^FAIL' "$home/report" || cat "$home/report"
		failed=1
	fi
	tail -n 1 "$home/report"
}

wasm="wasm { directories = [\"$programs\"] }"
process='process { commands = ["/bin/sleep"] }'
conform mock_driver -task 'run_for = "1h"'
conform wasi -grant "$wasm" -task "module = \"$programs/sleep.wasm\"
args = [\"1h\"]"
conform assemblyscript_minimal -grant "$wasm" -task "module = \"$programs/sleep.wasm\""
conform c_minimal -grant "$wasm" -task "module = \"$programs/sleep.wasm\""
conform rust_minimal -grant "$wasm" -task "module = \"$programs/sleep.wasm\""
conform zig_minimal -grant "$wasm" -task "module = \"$programs/sleep.wasm\""
conform raw_exec -grant "$process" -task 'command = "/bin/sleep"
args = ["3600"]'
# have tells whether the machine can start tasks of a driver; where it must, it does not go on.
have() {
	local driver=$1 program
	shift
	for program in "$@"; do
		[ -x "$(command -v "$program" || true)" ] && continue
		echo "$driver starts no task: no $program on this machine (make engines machines java installs it)"
		{ [ "${CI:-}" != true ] && [ "${WASMNODE_STRICT:-}" != 1 ]; } || failed=1
		return 1
	done
	if [ "$(id -u)" -ne 0 ]; then
		echo "$driver starts no task: only root can"
		return 1
	fi
}

isolated='process {
  commands  = ["*"]
  users     = ["nobody"]
  isolation = "full"
}'
if have exec /bin/sleep; then
	conform exec -grant "$isolated" -task 'command = "/bin/sleep"
args = ["3600"]'
else
	conform exec -grant "$isolated"
fi

# The one program of a Java without development tools that does not end by itself.
if have java java; then
	java=$(dirname "$(dirname "$(readlink -f "$(command -v java)")")")
	cat >"$home/java.hcl" <<-END
		plugin "java" {
		  config {
		    home = "$java"
		  }
		  grant {
		    fs {
		      read_only = ["$java"]
		    }
		    $isolated
		  }
		}
	END
	conform java -config "$home/java.hcl" -task 'class = "sun.rmi.registry.RegistryImpl"
args = ["0"]'
else
	conform java -grant "$isolated"
fi

# A machine whose disk is empty waits for another.
if have qemu /usr/bin/qemu-system-x86_64 /usr/bin/qemu-img; then
	mkdir "$home/images"
	truncate -s 1M "$home/images/empty"
	cat >"$home/qemu.hcl" <<-END
		plugin "qemu" {
		  config {
		    image_paths = ["$home/images"]
		  }
		  grant {
		    process {
		      commands = ["/usr/bin/qemu-system-x86_64"]
		      helper "/usr/bin/qemu-system-x86_64" {
		        args = ["--version"]
		      }
		      helper "/usr/bin/qemu-img" {
		        args = ["--version"]
		      }
		      helper "/usr/bin/qemu-img" {
		        args = ["info", "--output=json", "-U", "*"]
		      }
		    }
		  }
		}
	END
	conform qemu -config "$home/qemu.hcl" -task "image_path = \"$home/images/empty\""
else
	conform qemu -grant "$process"
fi

# An engine has a directory on a disk, and its image one program. As the first process of a
# container that ends only by signals that it handles.
command='command = "/bin/sh"
args = ["-c", "trap exit TERM; while :; do sleep 0.1; done"]'
engine=
end_engine() {
	[ -n "$engine" ] || return 0
	kill "$engine" && wait "$engine" || true
	engine=
	! mountpoint -q "$disk/exec/netns/default" || umount "$disk/exec/netns/default"
	rm -rf "$disk" "/run/containerd/runc/$(basename "$disk")"
	find /sys/fs/cgroup -depth -type d -path "*/$(basename "$disk")*" -exec rmdir {} + || true
}
trap 'end_engine; rm -rf "$home"' EXIT

# started waits until the engine answers its client, which is called with the arguments, and makes
# the files of the image.
started() {
	local tries=0
	until "$@" version >/dev/null 2>&1; do
		kill -0 "$engine" && [ $((tries += 1)) -lt 600 ] || { cat "$disk/log"; return 1; }
		sleep 0.1
	done
	mkdir -p "$disk/root/bin" "$disk/root/tmp"
	cp /bin/busybox "$disk/root/bin/sh"
	ln -s sh "$disk/root/bin/sleep"
	ln -s sh "$disk/root/bin/true"
}

# docker_tasks checks the driver with the engine whose client is called with the arguments.
docker_tasks() {
	started "$@" || return 1
	tar -C "$disk/root" -c . | "$@" import - localhost/conform:1 >"$disk/imported"
	cat >"$home/docker.hcl" <<-END
		plugin "docker" {
		  config {
		    endpoint = "unix://$disk/s"
		  }
		  grant {
		    kv {
		      enabled = true
		    }
		    http {
		      endpoint "unix:$disk/s" {
		        methods = ["GET", "POST", "DELETE"]
		        paths   = ["/version", "/info", "/containers/", "/images/", "/exec/"]
		      }
		    }
		  }
		}
	END
	conform docker -timeout 1m -config "$home/docker.hcl" -task "image = \"localhost/conform:1\"
$command
network_mode = \"none\""
	"$@" ps -aq | xargs -r "$@" rm -f >"$disk/removed"
}

# containerd_tasks does the same for containerd.
containerd_tasks() {
	started "$@" || return 1
	mkdir "$disk/image"
	tar -C "$disk/root" -cf "$disk/image/layer.tar" .
	cat >"$disk/image/config.json" <<-END
		{"architecture": "$(go env GOARCH)", "os": "linux", "rootfs": {"type": "layers", "diff_ids": ["sha256:$(sha256sum <"$disk/image/layer.tar" | cut -d ' ' -f 1)"]}}
	END
	echo '[{"Config": "config.json", "RepoTags": ["localhost/conform:1"], "Layers": ["layer.tar"]}]' >"$disk/image/manifest.json"
	tar -C "$disk/image" -cf "$disk/image.tar" .
	"$@" images import "$disk/image.tar" >"$disk/imported" || return 1
	cat >"$home/containerd.hcl" <<-END
		plugin "containerd-driver" {
		  config {
		    endpoint  = "unix://$disk/s"
		    namespace = "$(basename "$disk")"
		  }
		  grant {
		    net {
		      sockets = ["$disk/s"]
		    }
		  }
		}
	END
	conform containerd-driver -timeout 1m -config "$home/containerd.hcl" -task "image = \"localhost/conform:1\"
$command"
	"$@" tasks list --quiet | xargs -r "$@" tasks rm --force
	"$@" containers list --quiet | xargs -r "$@" containers rm
}

if [ -n "${WITHOUT_CONTAINERS:-}" ]; then
	echo "docker and containerd start no tasks: that is left to make conform and make check-full"
fi
if [ -z "${WITHOUT_CONTAINERS:-}" ] && have docker dockerd docker runc /bin/busybox; then
	disk=$(mktemp -d /var/tmp/wnXXXX)
	dockerd -H "unix://$disk/s" --data-root "$disk/data" --exec-root "$disk/exec" -p "$disk/pid" --bridge=none --iptables=false \
		--ip-forward=false --ip-masq=false --containerd-namespace "$(basename "$disk")" \
		--containerd-plugins-namespace "$(basename "$disk")-plugins" --cgroup-parent "/$(basename "$disk")" >"$disk/log" 2>&1 &
	engine=$!
	docker_tasks docker -H "unix://$disk/s" || failed=1
	end_engine
else
	conform docker -grant 'http { endpoint "unix:/nonexistent.sock" { paths = ["/"] } }' -grant 'kv { enabled = true }'
fi
if [ -z "${WITHOUT_CONTAINERS:-}" ] && have containerd containerd ctr runc /bin/busybox; then
	disk=$(mktemp -d /var/tmp/wnXXXX)
	cat >"$disk/config.toml" <<-END
		version = 2
		root = "$disk/data"
		state = "$disk/state"
		disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.internal.v1.opt"]
		[grpc]
		  address = "$disk/s"
		[ttrpc]
		  address = "$disk/t"
	END
	containerd --config "$disk/config.toml" >"$disk/log" 2>&1 &
	engine=$!
	containerd_tasks ctr --address "$disk/s" --namespace "$(basename "$disk")" || failed=1
	end_engine
else
	conform containerd-driver -grant 'net { sockets = ["/nonexistent.sock"] }'
fi
for name in example assemblyscript_example c_example rust_example zig_example; do
	printf 'plugin "%s" {\n  config { dir = "%s" }\n  grant {\n    fs { read_only = ["%s"] }\n  }\n}\n' "$name" "$home/devices" "$home/devices" >"$home/$name.hcl"
	conform "$name" -config "$home/$name.hcl"
done
conform gpu
conform usb
exit $failed
