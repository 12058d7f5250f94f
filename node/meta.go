package node

import (
	"context"
	"maps"
	"strings"

	"github.com/wasmnode/wasmnode/state"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

// The bounds of the metadata that people set: every allocation's environment is built with
// it, and every change is stored whole.
const (
	maxMeta      = 512  // names
	maxMetaName  = 256  // bytes
	maxMetaValue = 4096 // bytes
)

// Metadata is the node's metadata, and where it is from; read-only.
func (n *Node) Metadata() structs.NodeMeta {
	n.metaMu.Lock()
	defer n.metaMu.Unlock()
	return n.metadata(n.dynamicMeta)
}

func (n *Node) metadata(dynamic map[string]*string) structs.NodeMeta {
	static := n.cfg.Identity.Meta
	return structs.NodeMeta{Meta: mergeMeta(static, dynamic), Static: maps.Clone(static), Dynamic: maps.Clone(dynamic)}
}

// ApplyMetadata changes metadata by name; nil unsets it, also what the configuration sets. It
// is durable when it returns, and the control plane knows it unless ctx was done before.
// errdefs.InvalidArgument: a name or a value that the node does not take, and then nothing
// is changed.
func (n *Node) ApplyMetadata(ctx context.Context, changes map[string]*string) (structs.NodeMeta, error) {
	m, err := n.applyMetadata(changes)
	if err == nil {
		_ = n.self.awaitKnown(ctx) // it will know later
	}
	return m, err
}

func (n *Node) applyMetadata(changes map[string]*string) (structs.NodeMeta, error) {
	n.metaMu.Lock()
	defer n.metaMu.Unlock()
	next := map[string]*string{}
	maps.Copy(next, n.dynamicMeta)
	for name, value := range changes {
		if err := checkMeta(name, value); err != nil {
			return structs.NodeMeta{}, err
		}
		if _, static := n.cfg.Identity.Meta[name]; value == nil && !static {
			delete(next, name)
			continue
		}
		next[name] = value
	}
	if len(next) > maxMeta {
		return structs.NodeMeta{}, errdefs.New(errdefs.InvalidArgument, "metadata: %d names; the node keeps at most %d", len(next), maxMeta)
	}
	if err := n.cfg.State.PutNodeMeta(&state.NodeMeta{Dynamic: next}); err != nil {
		return structs.NodeMeta{}, err
	}
	n.dynamicMeta = next
	out := n.metadata(next)
	n.self.update(func(self *structs.Node) bool {
		changed := !maps.Equal(self.Meta, out.Meta)
		self.Meta = out.Meta
		return changed
	})
	return out, nil
}

// checkMeta refuses what could not be used in a job file, or takes too much room.
func checkMeta(name string, value *string) error {
	unusable := func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`"'${}\`, r) }
	switch {
	case name == "":
		return errdefs.New(errdefs.InvalidArgument, "metadata: a name is empty")
	case len(name) > maxMetaName:
		return errdefs.New(errdefs.InvalidArgument, "metadata: a name of %d bytes; at most %d", len(name), maxMetaName)
	case strings.ContainsFunc(name, unusable):
		return errdefs.New(errdefs.InvalidArgument, "metadata: the name %q has what no job file could name", name)
	case value != nil && len(*value) > maxMetaValue:
		return errdefs.New(errdefs.InvalidArgument, "metadata: %s has a value of %d bytes; at most %d", name, len(*value), maxMetaValue)
	}
	return nil
}

// mergeMeta returns the static metadata with the dynamic over it.
func mergeMeta(static map[string]string, dynamic map[string]*string) map[string]string {
	merged := map[string]string{}
	maps.Copy(merged, static)
	for name, value := range dynamic {
		if value == nil {
			delete(merged, name)
		} else {
			merged[name] = *value
		}
	}
	return merged
}
