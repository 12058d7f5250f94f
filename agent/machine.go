package agent

import (
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/wasmnode/wasmnode/clientapi"
	"github.com/wasmnode/wasmnode/internal/hostinfo"
)

// Bounds of what is told of a machine.
const (
	maxAddresses = 1024
	maxMachine   = 64 << 10 // bytes of a file of the system
)

// toldVariables are those of the agent's environment whose values are told. Any other may be a
// secret, whatever it is called: that it is set is told alone.
var toldVariables = []string{
	"GODEBUG", "GOGC", "GOMAXPROCS", "GOMEMLIMIT", "GOTRACEBACK", "HOME", "HOSTNAME", "INVOCATION_ID", "LANG", "LC_ALL", "LOGNAME",
	"PATH", "PWD", "SHELL", "SSL_CERT_DIR", "SSL_CERT_FILE", "TERM", "TMPDIR", "TZ", "USER", "XDG_RUNTIME_DIR",
}

// redacted stands for a value that is not told.
const redacted = "<redacted>"

// machine describes the machine. What cannot be read is left out.
func (a *agent) machine() clientapi.Machine {
	m := clientapi.Machine{
		OS: hostinfo.Uname(), Resolver: systemFile("/etc/resolv.conf"), Hosts: systemFile("/etc/hosts"),
		Environment: environment(os.Environ()), Addresses: interfaceAddresses(),
	}
	seen := map[string]bool{}
	for _, dir := range []string{"/", a.cfg.DataDir} {
		path := hostinfo.MountPoint(dir)
		if usage, err := hostinfo.ReadDisk(path); err == nil && !seen[path] {
			seen[path] = true
			m.Disks = append(m.Disks, clientapi.Disk{Path: path, Total: usage.Total, Used: usage.Used})
		}
	}
	return m
}

func environment(all []string) map[string]string {
	told := make(map[string]string, len(all))
	for _, variable := range all {
		name, value, _ := strings.Cut(variable, "=")
		if !slices.Contains(toldVariables, name) {
			value = redacted
		}
		told[name] = value
	}
	return told
}

func systemFile(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxMachine))
	if err != nil {
		return ""
	}
	return string(text)
}

func interfaceAddresses() (all []clientapi.InterfaceAddress) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil
	}
	for _, i := range interfaces {
		addresses, err := i.Addrs()
		if err != nil {
			continue // it is gone
		}
		for _, address := range addresses {
			prefix, err := netip.ParsePrefix(address.String())
			if err == nil && len(all) < maxAddresses {
				all = append(all, clientapi.InterfaceAddress{Interface: i.Name, Prefix: prefix})
			}
		}
	}
	return all
}
