package network

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/containernetworking/cni/libcni"
)

// The modes of a group's network that have a namespace, with Nomad's names.
const (
	ModeBridge = "bridge" // an address on the node's bridge, and ports of the node's mapped to it
	ModeNone   = "none"   // the loopback interface only
	prefixCNI  = "cni/"   // the network of a file of the operator's
)

// bridgePlugins are those that the bridge mode takes.
var bridgePlugins = []string{"bridge", "firewall", "host-local", "portmap"}

// cniVersion is the version of the bridge's configuration, which plugins of before 2020
// know, too.
const cniVersion = "0.4.0"

// versionTimeout bounds how long a plugin may take to tell its version.
const versionTimeout = 2 * time.Second

// Versions are those of the plugins that the bridge takes and that are there, by name, such as
// "v1.1.1"; one that does not tell is "unknown". A plugin is asked once, and again when its file
// has changed.
func (n *Networks) Versions() map[string]string {
	n.mu.Lock()
	defer n.mu.Unlock()
	found := map[string]string{}
	for _, name := range bridgePlugins {
		path, info := n.find(name)
		if info == nil {
			continue
		}
		answer, known := n.asked[path]
		if !known || !answer.changed.Equal(info.ModTime()) {
			answer = asked{info.ModTime(), pluginVersion(path)}
			n.asked[path] = answer
		}
		if answer.version != "" {
			found[name] = answer.version
		}
	}
	return found
}

// find returns where a plugin's file is; no info: nowhere.
func (n *Networks) find(name string) (path string, info os.FileInfo) {
	for _, dir := range n.cfg.PluginPath {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, info
		}
	}
	return "", nil
}

// asked is what a plugin's file said when it was asked.
type asked struct {
	changed time.Time
	version string // empty: it is no plugin
}

var versionLine = regexp.MustCompile(`^CNI \S+ plugin (?:version )?(\S+)`)

// pluginVersion runs a plugin, which then says who it is.
func pluginVersion(path string) string {
	ctx, cancel := context.WithTimeout(context.Background(), versionTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, path)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	cmd.WaitDelay = versionTimeout
	said, err := cmd.CombinedOutput()
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		return ""
	}
	if m := versionLine.FindSubmatch(bytes.TrimSpace(said)); m != nil {
		return string(m[1])
	}
	return ""
}

// Missing returns what the node lacks for networks of a mode; nil: nothing.
func (n *Networks) Missing(mode string) error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("network mode %q needs an agent that runs as root", mode)
	}
	if mode == ModeBridge {
		return n.missingPlugins(mode, bridgePlugins)
	}
	if mode == ModeNone {
		return nil
	}
	list, err := n.load(mode)
	if err != nil {
		return err
	}
	var types []string
	for _, p := range list.Plugins {
		types = append(types, p.Network.Type)
	}
	return n.missingPlugins(mode, types)
}

func (n *Networks) missingPlugins(mode string, names []string) error {
	var missing []string
	for _, name := range names {
		if _, info := n.find(name); info == nil {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("network mode %q: the CNI plugins %s are not in %s: install containernetworking-plugins, or set cni_path in the client block",
		mode, strings.Join(missing, ", "), strings.Join(n.cfg.PluginPath, " or "))
}

// load returns the configuration of a mode's network.
func (n *Networks) load(mode string) (*libcni.NetworkConfigList, error) {
	if mode == ModeBridge {
		return libcni.NetworkConfFromBytes(n.bridge())
	}
	name, named := strings.CutPrefix(mode, prefixCNI)
	if !named || name == "" {
		return nil, fmt.Errorf("unknown network mode %q: the modes are host, none, bridge and cni/NAME", mode)
	}
	list, err := libcni.LoadNetworkConf(n.cfg.ConfigDir, name)
	if err != nil {
		return nil, fmt.Errorf("network mode %q: no configuration of that name in %s: %w", mode, n.cfg.ConfigDir, err)
	}
	return list, nil
}

// Modes are the modes that there are besides "host", and what the node lacks for each; empty:
// nothing.
func (n *Networks) Modes() map[string]string {
	modes := map[string]string{}
	for _, mode := range append(n.configured(), ModeNone, ModeBridge) {
		modes[mode] = ""
		if err := n.Missing(mode); err != nil {
			modes[mode] = err.Error()
		}
	}
	return modes
}

// configured are the modes of the networks that the operator has files of.
func (n *Networks) configured() (names []string) {
	files, err := libcni.ConfFiles(n.cfg.ConfigDir, []string{".conf", ".conflist", ".json"})
	if err != nil {
		return nil // a directory that is not there has no files
	}
	for _, file := range files {
		var named struct {
			Name string `json:"name"`
		}
		if content, err := os.ReadFile(file); err == nil && json.Unmarshal(content, &named) == nil && named.Name != "" {
			names = append(names, prefixCNI+named.Name)
		}
	}
	return names
}

// bridge is the configuration of the node's own bridge.
func (n *Networks) bridge() []byte {
	type object = map[string]any
	content, err := json.Marshal(object{
		"cniVersion": cniVersion,
		"name":       n.cfg.Bridge,
		"plugins": []object{{
			"type": "bridge", "bridge": n.cfg.Bridge, "isGateway": true, "ipMasq": true, "hairpinMode": true, "forceAddress": true,
			"ipam": object{
				"type": "host-local", "dataDir": n.addresses(),
				"ranges": [][]object{{{"subnet": n.cfg.Subnet.String()}}},
				"routes": []object{{"dst": "0.0.0.0/0"}},
			},
		}, {
			"type": "firewall", "backend": "iptables", "iptablesAdminChainName": "WASMNODE-ADMIN",
		}, {
			"type": "portmap", "capabilities": object{"portMappings": true}, "snat": true,
		}},
	})
	if err != nil {
		panic(err) // it is made of texts and booleans
	}
	return content
}

// MissingPlugins are those that the bridge takes and that are in none of the directories.
func MissingPlugins(dirs []string) (names []string) {
	n := &Networks{cfg: Config{PluginPath: dirs}}
	for _, name := range bridgePlugins {
		if _, info := n.find(name); info == nil {
			names = append(names, name)
		}
	}
	return names
}
