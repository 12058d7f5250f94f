package task

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/abi/wasmnodev1"
	"github.com/wasmnode/wasmnode/internal/durable"
	"github.com/wasmnode/wasmnode/runners/taskenv"
	"github.com/wasmnode/wasmnode/structs"
)

// resolverPath is where programs look for their name servers.
const resolverPath = "/etc/resolv.conf"

// resolver is the mount of the file with the name servers of the group's dns block; nil: the
// group has none, or the driver's tasks see the node's files. The file is in the allocation's
// directory, where no task reaches it.
func (r *Runner) resolver(alloc *structs.Allocation, env *taskenv.Env, driver Driver) (*wasmnodev1.Mount, error) {
	group := alloc.Group()
	if group == nil || len(group.Networks) == 0 || group.Networks[0].DNS == nil || !hasOwnEtc(driver) {
		return nil, nil
	}
	text, err := resolverText(group.Networks[0].DNS, env, resolverPath)
	if err != nil {
		return nil, fmt.Errorf("network: dns: %w", err)
	}
	file := filepath.Join(r.cfg.Dir.Alloc.Path(), filepath.Base(resolverPath))
	if err := durable.Replace(file, []byte(text), 0o644); err != nil { // other tasks write the same
		return nil, err
	}
	return &wasmnodev1.Mount{HostPath: file, TaskPath: resolverPath, ReadOnly: true}, nil
}

// hasOwnEtc reports whether a file can be put into the root of a driver's tasks: those of
// processes and of images, and not WASI programs, which ask nobody for names.
func hasOwnEtc(driver Driver) bool {
	switch driver.Capabilities().GetFilesystemIsolation() {
	case wasmnodev1.FilesystemIsolation_FILESYSTEM_ISOLATION_IMAGE:
		return true
	case wasmnodev1.FilesystemIsolation_FILESYSTEM_ISOLATION_CHROOT:
		return driver.RunsProcesses()
	}
	return false
}

// resolverText is the file's text. What the block leaves out is as in the node's file.
func resolverText(dns *nomad.DNSConfig, env *taskenv.Env, nodes string) (string, error) {
	content, err := os.ReadFile(nodes)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	var servers, searches, options []string
	for line := range strings.Lines(string(content)) {
		switch words := strings.Fields(line); {
		case len(words) < 2:
		case words[0] == "nameserver":
			servers = append(servers, words[1])
		case words[0] == "search":
			searches = words[1:]
		case words[0] == "options":
			options = append(options, words[1:]...)
		}
	}
	for _, part := range []struct {
		asked []string
		into  *[]string
	}{{dns.Servers, &servers}, {dns.Searches, &searches}, {dns.Options, &options}} {
		if len(part.asked) > 0 {
			*part.into = nil
		}
		for _, text := range part.asked {
			text = env.Replace(text)
			if text == "" || strings.ContainsFunc(text, func(c rune) bool { return unicode.IsSpace(c) || unicode.IsControl(c) }) {
				return "", fmt.Errorf("%q is not one word", text)
			}
			*part.into = append(*part.into, text)
		}
	}
	var b strings.Builder
	for _, server := range servers {
		fmt.Fprintln(&b, "nameserver", server)
	}
	if len(searches) > 0 {
		fmt.Fprintln(&b, "search", strings.Join(searches, " "))
	}
	if len(options) > 0 {
		fmt.Fprintln(&b, "options", strings.Join(options, " "))
	}
	return b.String(), nil
}
