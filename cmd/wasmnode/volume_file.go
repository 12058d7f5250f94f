package main

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"
	"github.com/hashicorp/hcl/v2/hclparse"
	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/internal/hclvalue"
)

// errCSI is of everything that is asked of CSI volumes.
var errCSI = errors.New(`there are no CSI volumes: volumes here are of the type "host"`)

// volumeType is what is read of a volume's file first: only one type is read on.
type volumeType struct {
	Type *string  `hcl:"type,optional"`
	Rest hcl.Body `hcl:",remain"`
}

// volumeFile is a file of a host volume, but for its type and parameters.
type volumeFile struct {
	ID           string            `hcl:"id,optional"`
	Namespace    string            `hcl:"namespace,optional"`
	Name         string            `hcl:"name,optional"`
	PluginID     string            `hcl:"plugin_id,optional"`
	NodePool     string            `hcl:"node_pool,optional"`
	NodeID       string            `hcl:"node_id,optional"`
	HostPath     string            `hcl:"host_path,optional"`
	Capacity     string            `hcl:"capacity,optional"`
	CapacityMin  string            `hcl:"capacity_min,optional"`
	CapacityMax  string            `hcl:"capacity_max,optional"`
	Capabilities []capabilityBlock `hcl:"capability,block"`
	Constraints  []constraintBlock `hcl:"constraint,block"`
	Rest         hcl.Body          `hcl:",remain"`
}

type capabilityBlock struct {
	AccessMode     string `hcl:"access_mode,optional"`
	AttachmentMode string `hcl:"attachment_mode,optional"`
}

// constraintBlock is a constraint, in each of the ways to write one.
type constraintBlock struct {
	Attribute        string  `hcl:"attribute,optional"`
	Operator         string  `hcl:"operator,optional"`
	Value            string  `hcl:"value,optional"`
	Version          *string `hcl:"version,optional"`
	Semver           *string `hcl:"semver,optional"`
	Regexp           *string `hcl:"regexp,optional"`
	SetContains      *string `hcl:"set_contains,optional"`
	DistinctHosts    *bool   `hcl:"distinct_hosts,optional"`
	DistinctProperty *string `hcl:"distinct_property,optional"`
}

// decodeVolume reads the definition of a host volume, which is HCL or JSON.
func decodeVolume(path string, content []byte) (*nomad.HostVolume, error) {
	var parsed *hcl.File
	var diags hcl.Diagnostics
	if bytes.HasPrefix(bytes.TrimSpace(content), []byte("{")) {
		parsed, diags = hclparse.NewParser().ParseJSON(content, path)
	} else {
		parsed, diags = hclparse.NewParser().ParseHCL(literal(content), path)
	}
	var kind volumeType
	if !diags.HasErrors() {
		diags = gohcl.DecodeBody(parsed.Body, nil, &kind)
	}
	if diags.HasErrors() {
		return nil, errors.New(strings.Join(hclvalue.Lines(diags), "; "))
	}
	switch {
	case kind.Type == nil:
		return nil, fmt.Errorf(`%s: it has no type: type = "host"`, path)
	case strings.EqualFold(*kind.Type, "csi"):
		return nil, fmt.Errorf("%s: %w", path, errCSI)
	case !strings.EqualFold(*kind.Type, "host"):
		return nil, fmt.Errorf(`%s: unknown volume type: %q: it is "host"`, path, *kind.Type)
	}
	var file volumeFile
	if diags = gohcl.DecodeBody(kind.Rest, nil, &file); diags.HasErrors() {
		return nil, errors.New(strings.Join(hclvalue.Lines(diags), "; "))
	}
	parameters, diags := textsOf(file.Rest, "parameters", hasBlock(parsed.Body, "parameters"))
	if diags.HasErrors() {
		return nil, errors.New(strings.Join(hclvalue.Lines(diags), "; "))
	}
	return file.volume(path, parameters)
}

// literal has texts mean themselves: what "${attr.kernel.name}" stands for is the node's to say.
func literal(content []byte) []byte {
	return bytes.ReplaceAll(bytes.ReplaceAll(content, []byte("${"), []byte("$${")), []byte("%{"), []byte("%%{"))
}

func (f volumeFile) volume(path string, parameters map[string]string) (*nomad.HostVolume, error) {
	v := &nomad.HostVolume{
		ID: f.ID, Namespace: f.Namespace, Name: f.Name, PluginID: f.PluginID, NodePool: f.NodePool, NodeID: f.NodeID,
		HostPath: f.HostPath, Parameters: parameters,
	}
	for _, size := range []struct {
		key, text string
		to        *int64
	}{{"capacity", f.Capacity, &v.CapacityBytes}, {"capacity_min", f.CapacityMin, &v.RequestedCapacityMinBytes}, {"capacity_max", f.CapacityMax, &v.RequestedCapacityMaxBytes}} {
		if size.text == "" {
			continue
		}
		bytes, err := humanize.ParseBytes(size.text)
		if err != nil || bytes > math.MaxInt64 {
			return nil, fmt.Errorf(`%s: invalid %s: %q is no size such as "10GiB"`, path, size.key, size.text)
		}
		*size.to = int64(bytes)
	}
	for _, c := range f.Capabilities {
		v.RequestedCapabilities = append(v.RequestedCapabilities, &nomad.HostVolumeCapability{
			AccessMode: nomad.HostVolumeAccessMode(c.AccessMode), AttachmentMode: nomad.HostVolumeAttachmentMode(c.AttachmentMode),
		})
	}
	for _, c := range f.Constraints {
		if is := c.constraint(); is != nil {
			v.Constraints = append(v.Constraints, is)
		}
	}
	return v, nil
}

// constraint is what a block asks for; nil: nothing.
func (b constraintBlock) constraint() *nomad.Constraint {
	c := &nomad.Constraint{LTarget: b.Attribute, RTarget: b.Value, Operand: b.Operator}
	for operand, value := range map[string]*string{
		nomad.ConstraintVersion: b.Version, nomad.ConstraintSemver: b.Semver, nomad.ConstraintRegex: b.Regexp, nomad.ConstraintSetContains: b.SetContains,
	} {
		if value != nil {
			c.Operand, c.RTarget = operand, *value
		}
	}
	switch {
	case b.DistinctHosts != nil && !*b.DistinctHosts:
		return nil
	case b.DistinctHosts != nil:
		c.Operand, c.RTarget = nomad.ConstraintDistinctHosts, "true"
	case b.DistinctProperty != nil:
		c.Operand, c.LTarget = nomad.ConstraintDistinctProperty, *b.DistinctProperty
	case c.Operand == "":
		c.Operand = "="
	}
	return c
}
