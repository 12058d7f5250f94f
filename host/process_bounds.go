package host

import (
	"fmt"
	"slices"
	"strings"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/internal/plaintext"
	"github.com/wasmnode/wasmnode/workload"
)

// maxLimits bounds the limits of a process that are looked at.
const maxLimits = 16

// linuxCapabilities are named in the order of capabilities(7)'s numbers, from 0 on.
var linuxCapabilities = []string{
	"chown", "dac_override", "dac_read_search", "fowner", "fsetid", "kill", "setgid", "setuid",
	"setpcap", "linux_immutable", "net_bind_service", "net_broadcast", "net_admin", "net_raw", "ipc_lock", "ipc_owner",
	"sys_module", "sys_rawio", "sys_chroot", "sys_ptrace", "sys_pacct", "sys_admin", "sys_boot", "sys_nice",
	"sys_resource", "sys_time", "sys_tty_config", "mknod", "lease", "audit_write", "audit_control", "setfcap",
	"mac_override", "mac_admin", "syslog", "wake_alarm", "block_suspend", "audit_read", "perfmon", "bpf",
	"checkpoint_restore",
}

// allCapabilities is what drops all.
const allCapabilities = "all"

// linuxCapability refuses what is not the name of one.
func linuxCapability(name string) error {
	if !slices.Contains(linuxCapabilities, name) {
		return fmt.Errorf("%q is not one of Linux's capabilities, such as \"net_raw\"", plaintext.Line(name, 64))
	}
	return nil
}

// capabilityName is a name as it is granted: people also write CAP_NET_RAW.
func capabilityName(name string) string { return strings.TrimPrefix(strings.ToLower(name), "cap_") }

// capabilitySet reads names, of which each is permitted.
func capabilitySet(names []string, permitted func(name string) error) (set workload.Capabilities, err error) {
	for _, name := range names {
		name = capabilityName(name)
		if err := linuxCapability(name); err != nil {
			return 0, abi.NewError(abi.InvalidArgument, err.Error())
		}
		if err := permitted(name); err != nil {
			return 0, err
		}
		set |= 1 << slices.Index(linuxCapabilities, name)
	}
	return set, nil
}

// setCapabilities are those of an isolated process that differ from its user's.
func setCapabilities(p *workload.Process, r *wasmnodev1.ProcessStartRequest, plugin string, g ProcessGrant) (err error) {
	if len(r.AddCapabilities) == 0 && len(r.DropCapabilities) == 0 {
		return nil
	}
	switch {
	case len(r.AddCapabilities) > len(linuxCapabilities), len(r.DropCapabilities) > len(linuxCapabilities):
		return abi.NewError(abi.InvalidArgument, fmt.Sprintf("more than %d capabilities", len(linuxCapabilities)))
	case p.Isolated == nil:
		return abi.NewError(abi.InvalidArgument, "capabilities are for processes with full isolation: others have their user's")
	}
	p.Isolated.AddCapabilities, err = capabilitySet(r.AddCapabilities, func(name string) error {
		if slices.Contains(g.Capabilities, name) {
			return nil
		}
		return notGranted("capability "+name, processFix(plugin, fmt.Sprintf("capabilities = [%q]", name)))
	})
	if err != nil {
		return err
	}
	if slices.ContainsFunc(r.DropCapabilities, func(name string) bool { return strings.EqualFold(name, allCapabilities) }) {
		p.Isolated.DropCapabilities = ^workload.Capabilities(0)
		return nil
	}
	p.Isolated.DropCapabilities, err = capabilitySet(r.DropCapabilities, func(string) error { return nil })
	return err
}

// boundsOf are a process's own bounds. What they may be, the supervisor says.
func boundsOf(r *wasmnodev1.ProcessStartRequest) (b workload.Bounds, err error) {
	if len(r.Limits) > maxLimits {
		return b, abi.NewError(abi.InvalidArgument, fmt.Sprintf("more than %d limits", maxLimits))
	}
	b.OOMScoreAdj = int(r.OomScoreAdj)
	for _, l := range r.Limits {
		b.Limits = append(b.Limits, workload.Limit{Name: plaintext.Line(l.GetName(), 64), Soft: l.GetSoft(), Hard: l.GetHard()})
	}
	return b, nil
}
