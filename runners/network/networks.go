package network

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/wasmnode/wasmnode/structs"
)

// Config is where networks come from. All fields are required.
type Config struct {
	// PluginPath are the directories that plugins of CNI are looked for in.
	PluginPath []string
	// ConfigDir has the operator's own networks, which jobs name as cni/NAME.
	ConfigDir string
	// Bridge is the name of the interface that allocations in bridge mode share, at most
	// 15 bytes.
	Bridge string
	// Subnet is where their addresses are from.
	Subnet netip.Prefix
	// NamespaceDir keeps the namespaces, where ip-netns(8) finds them, too. RunDir keeps
	// what was given to whom. Both are to be empty after a reboot.
	NamespaceDir string
	RunDir       string
}

// Networks gives allocations networks. Its methods may be called concurrently.
type Networks struct {
	cfg Config
	cni *libcni.CNIConfig
	// mu lets one network change at a time: plugins share the node's bridge and its rules.
	mu    sync.Mutex
	asked map[string]asked // by path
}

// New returns the networks of a node. It touches nothing.
func New(cfg Config) *Networks {
	return &Networks{cfg: cfg, asked: map[string]asked{}, cni: libcni.NewCNIConfigWithCacheDir(cfg.PluginPath, cfg.RunDir, nil)}
}

// interfaceName is what an allocation's interface is called.
const interfaceName = "eth0"

// Path is where an allocation's namespace is.
func (n *Networks) Path(allocID string) string { return filepath.Join(n.cfg.NamespaceDir, allocID) }

func (n *Networks) addresses() string { return filepath.Join(n.cfg.RunDir, "addresses") }

// timeout bounds how long the plugins of a network may take.
const timeout = time.Minute

// Up gives an allocation its network, or returns the one that it has since an earlier
// call, by an earlier agent, too. After an error it has none. Create makes a
// namespace where there is none, or says by nil that it is to be made here.
func (n *Networks) Up(ctx context.Context, a *structs.Allocation, create func(context.Context) (*os.File, error)) (*structs.AllocNetwork, error) {
	mode := a.NetworkMode()
	if err := n.Missing(mode); err != nil {
		return nil, err
	}
	if given, err := n.found(a, mode); given != nil || err != nil {
		return given, err
	}
	namespace, err := create(ctx) // which may take long, and the others go on
	if err != nil {
		return nil, err
	}
	if namespace != nil {
		defer func() { _ = namespace.Close() }() // nothing was written to it
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	n.mu.Lock()
	defer n.mu.Unlock()
	if mode == ModeNone {
		return &structs.AllocNetwork{Mode: mode, Namespace: n.Path(a.ID)}, n.keep(n.Path(a.ID), namespace)
	}
	return n.attach(ctx, a, mode, namespace)
}

// found returns the network that an allocation has; nil: none.
func (n *Networks) found(a *structs.Allocation, mode string) (*structs.AllocNetwork, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	path := n.Path(a.ID)
	if !isNamespace(path) {
		return nil, nil
	}
	if mode == ModeNone {
		return &structs.AllocNetwork{Mode: mode, Namespace: path}, nil
	}
	list, err := n.load(mode)
	if err != nil {
		return nil, err
	}
	if known, err := n.cni.GetNetworkListCachedResult(n.kept(a.ID, list), n.runtime(a)); err == nil && known != nil {
		return n.described(a, mode, known)
	}
	return nil, nil
}

// attach has plugins give an allocation what is in its network. The lock is held.
func (n *Networks) attach(ctx context.Context, a *structs.Allocation, mode string, namespace *os.File) (*structs.AllocNetwork, error) {
	list, err := n.load(mode)
	if err != nil {
		return nil, err
	}
	runtime := n.runtime(a)
	// What an agent began that was killed, or what a reboot left of it, goes first.
	if err := n.down(ctx, a.ID, n.kept(a.ID, list), runtime); err != nil {
		return nil, err
	}
	if err := free(a.Resources.Ports); err != nil {
		return nil, err
	}
	if err := n.keep(n.Path(a.ID), namespace); err != nil {
		return nil, err
	}
	result, err := n.cni.AddNetworkList(ctx, list, runtime)
	if err != nil {
		// The context may be why it failed.
		return nil, errors.Join(fmt.Errorf("network mode %q: %w", mode, err), n.down(context.WithoutCancel(ctx), a.ID, list, runtime))
	}
	return n.described(a, mode, result)
}

// keep keeps a namespace at a path, a new one without one.
func (n *Networks) keep(path string, namespace *os.File) error {
	for _, dir := range []string{n.cfg.NamespaceDir, n.cfg.RunDir} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	if namespace != nil {
		return keepNamespace(path, namespace)
	}
	return makeNamespace(path)
}

// runtime is what plugins are told of an allocation.
func (n *Networks) runtime(a *structs.Allocation) *libcni.RuntimeConf {
	return &libcni.RuntimeConf{
		ContainerID: a.ID, NetNS: n.Path(a.ID), IfName: interfaceName,
		CapabilityArgs: map[string]any{"portMappings": portMappings(a.Resources.Ports)},
	}
}

// portMapping is one of portmap's, with the names that it reads.
type portMapping struct {
	HostPort      int    `json:"hostPort"`
	ContainerPort int    `json:"containerPort"`
	Protocol      string `json:"protocol"`
	HostIP        string `json:"hostIP,omitempty"`
}

// portMappings has every port for both protocols, as in Nomad: jobs name none.
func portMappings(ports []structs.AllocatedPort) []portMapping {
	mappings := make([]portMapping, 0, 2*len(ports))
	for _, p := range ports {
		for _, protocol := range []string{"tcp", "udp"} {
			mappings = append(mappings, portMapping{p.Value, cmp.Or(p.To, p.Value), protocol, p.HostIP})
		}
	}
	return mappings
}

// described renders what plugins gave an allocation: the first address of each family.
func (n *Networks) described(a *structs.Allocation, mode string, result types.Result) (*structs.AllocNetwork, error) {
	r, err := types100.NewResultFromResult(result)
	if err != nil {
		return nil, fmt.Errorf("network mode %q: what its plugins answered: %w", mode, err)
	}
	given := &structs.AllocNetwork{Mode: mode, Namespace: n.Path(a.ID), Interface: interfaceName}
	for _, ip := range r.IPs {
		switch text := ip.Address.IP.String(); {
		case ip.Address.IP.To4() == nil && given.AddressIPv6 == "":
			given.AddressIPv6 = text
		case ip.Address.IP.To4() != nil && given.Address == "":
			given.Address = text
		}
	}
	return given, nil
}

// Down takes an allocation's network away, once its tasks have ended. That it has none is
// not an error.
func (n *Networks) Down(ctx context.Context, a *structs.Allocation) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	mode := a.NetworkMode()
	n.mu.Lock()
	defer n.mu.Unlock()
	path := n.Path(a.ID)
	if mode == ModeNone {
		return removeNamespace(path)
	}
	list, err := n.load(mode)
	if list = n.kept(a.ID, list); list == nil {
		// The file of the network is gone, and nothing is known to have been given: the
		// kernel takes the interfaces away with the namespace.
		return errors.Join(err, removeNamespace(path))
	}
	return n.down(ctx, a.ID, list, n.runtime(a))
}

// kept returns the configuration by which an allocation was given its network, or else that
// of now. Plugins find by the network's name what they gave, so that another name or file
// would leave the rules that lead the node's ports to an address which somebody else gets.
func (n *Networks) kept(allocID string, now *libcni.NetworkConfigList) *libcni.NetworkConfigList {
	attached, _ := n.cni.GetCachedAttachments(allocID) // what cannot be read is as good as none
	for _, a := range attached {
		if now != nil && bytes.Equal(now.Bytes, a.Config) {
			return now // with plugins that have files of their own
		}
		if list, err := libcni.NetworkConfFromBytes(a.Config); err == nil && len(list.Plugins) > 0 {
			return list
		}
	}
	return now
}

// down has plugins take back what they gave, if they gave something, and lets go of the
// namespace.
func (n *Networks) down(ctx context.Context, allocID string, list *libcni.NetworkConfigList, runtime *libcni.RuntimeConf) error {
	path := n.Path(allocID)
	// What cannot be read is as good as none: the plugins take back what they find.
	if given, _ := n.cni.GetNetworkListCachedResult(list, runtime); given == nil && !isNamespace(path) {
		return removeNamespace(path)
	}
	if err := n.cni.DelNetworkList(ctx, list, runtime); err != nil {
		return fmt.Errorf("taking the network back: %w", err)
	}
	return removeNamespace(path)
}
