package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/config"
)

// image is what an image says of its containers.
type image struct {
	name       string
	config     string         // the digest of what it says
	layers     []config.Value // their descriptors
	diffs      []string       // the digests of the layers when they are unpacked
	chain      string         // the snapshot that has all of them
	env        []string
	entrypoint []string
	command    []string
	dir        string
	user       string
}

// maxContent bounds a manifest, and a configuration. Such are a few KiB.
const maxContent = 4 << 20

// fullName is an image's name as containerd has it, with the host of the registry and a tag.
func fullName(name string) string {
	host, rest, found := strings.Cut(name, "/")
	switch {
	case !found:
		name = "docker.io/library/" + name
	case !strings.ContainsAny(host, ".:") && host != "localhost":
		name = "docker.io/" + host + "/" + rest
	}
	if last := name[strings.LastIndexByte(name, '/'):]; !strings.ContainsAny(last, ":@") {
		name += ":latest"
	}
	return name
}

// provideImage finds an image that is there, and unpacks it if nobody has.
func (c *client) provideImage(ctx context.Context, name string) (*image, error) {
	name = fullName(name)
	answer, err := c.ask("images.v1.Images/Get", about(name))
	if absent(err) {
		return nil, abi.NewError(abi.NotFound, "containerd has no image "+name+" in the namespace "+c.namespace+
			", and the driver pulls none: ctr -n "+c.namespace+" images pull "+name+" does, or images import with a file")
	}
	if err != nil {
		return nil, saying("image "+name, err)
	}
	i := &image{name: name}
	if err := c.readImage(i, answer.text(1, 3, 2)); err != nil {
		return nil, saying("image "+name, err)
	}
	if i.chain == "" {
		return i, nil // it has no files
	}
	if found, err := c.hasSnapshot(i.chain); err != nil || found {
		return i, err
	}
	if err := c.unpack(ctx, i); err != nil {
		return nil, saying("image "+name+" is not unpacked", err)
	}
	return i, nil
}

// readImage reads what an image is made of, by the digest of its index or manifest.
func (c *client) readImage(i *image, digest string) error {
	manifest, err := c.readJSON(digest)
	if err != nil {
		return err
	}
	if all := manifest.Get("manifests").Items(); len(all) > 0 {
		if digest, err = c.choose(all); err != nil {
			return err
		}
		if manifest, err = c.readJSON(digest); err != nil {
			return err
		}
	}
	i.config = manifest.Get("config", "digest").Text()
	v, err := c.readJSON(i.config)
	if err != nil {
		return err
	}
	i.layers, i.diffs = manifest.Get("layers").Items(), v.Get("rootfs", "diff_ids").Texts()
	i.chain = chain(i.diffs)
	own := v.Get("config")
	i.env, i.entrypoint, i.command = own.Get("Env").Texts(), own.Get("Entrypoint").Texts(), own.Get("Cmd").Texts()
	i.dir, i.user = own.Get("WorkingDir").Text(), own.Get("User").Text()
	return nil
}

// choose finds the manifest for the machine that containerd is on.
func (c *client) choose(manifests []config.Value) (digest string, err error) {
	p, found, err := c.plugin("io.containerd.snapshotter.v1", c.snapshotter)
	if err == nil && !found {
		err = abi.NewError(abi.FailedPrecondition, "containerd has no snapshotter "+c.snapshotter)
	}
	if err != nil {
		return "", err
	}
	for _, m := range manifests {
		of := m.Get("platform")
		if of.Get("os").Text() == "linux" && of.Get("architecture").Text() == p.architecture {
			return m.Get("digest").Text(), nil
		}
	}
	return "", abi.NewError(abi.FailedPrecondition, "it has nothing for linux/"+p.architecture)
}

// readJSON reads content by its digest.
func (c *client) readJSON(digest string) (config.Value, error) {
	var text []byte
	err := c.call(services+"content.v1.Content/Read", about(digest).b, answerTime, func(m []byte) error {
		if text = append(text, fields(m).get(2)...); len(text) > maxContent {
			return abi.NewError(abi.ResourceExhausted, digest+" is larger than 4 MiB")
		}
		return nil
	})
	if err != nil {
		return config.Value{}, err
	}
	v, err := config.Parse(text)
	if err != nil {
		return v, abi.NewError(abi.FailedPrecondition, digest+": "+err.Error())
	}
	return v, nil
}

// chain is the name of the snapshot that has these layers, one on the other.
func chain(layers []string) (name string) {
	for _, layer := range layers {
		if name == "" {
			name = layer
			continue
		}
		sum := sha256.Sum256([]byte(name + " " + layer))
		name = "sha256:" + hex.EncodeToString(sum[:])
	}
	return name
}
