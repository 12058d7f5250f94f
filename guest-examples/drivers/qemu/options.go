package main

import (
	"slices"
	"strconv"
	"strings"

	"github.com/wasmnode/wasmnode/abi"
)

// flags are the emulator's options without a value, of which some are of versions before:
// what follows one that is none of these is its value.
var flags = strings.Fields(`-S -s -alt-grab -async-teardown -audio-help -ctrl-grab -curses -daemonize -enable-fips -enable-kvm -enable-sync-profile
	-full-screen -h -help -jitdump -mem-prealloc -no-acpi -no-fd-bootchk -no-hpet -no-kvm -no-quit -no-reboot -no-shutdown
	-no-user-config -nodefaults -nodefconfig -nographic -old-param -only-migratable -perfmap -portrait -preconfig
	-sdl -semihosting -singlestep -snapshot -usb -version -win2k-hack -xen-attach -xen-domid-restrict`)

// checkOptions refuses arguments with an option that is not permitted, or with one that is no
// option's value: the emulator takes it for a disk image. Without permitted options all are.
func checkOptions(args, permitted []string) error {
	if len(permitted) == 0 {
		return nil
	}
	takesValue := false
	for _, arg := range args {
		if !strings.HasPrefix(arg, "-") {
			if !takesValue {
				return abi.NewError(abi.PermissionDenied, "args: "+strconv.Quote(arg)+" is no option's value, so that it is a disk image, which the plugin's args_allowlist does not permit")
			}
			takesValue = false
			continue
		}
		option := single(arg)
		if !slices.ContainsFunc(permitted, func(p string) bool { return single(p) == option }) {
			return abi.NewError(abi.PermissionDenied, "args: "+arg+" is not in the plugin's args_allowlist")
		}
		takesValue = !slices.Contains(flags, option)
	}
	return nil
}

// single is an option with one dash: the emulator takes it with two, too.
func single(option string) string {
	if strings.HasPrefix(option, "--") {
		return option[1:]
	}
	return option
}
