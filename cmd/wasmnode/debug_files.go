package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/agent"
)

// maxTaken bounds one file of what is gathered, in bytes.
const maxTaken = 256 << 20

// take has an answer in a file, and reports whether it is there. What cannot be had is said. An
// answer that the end of ctx cuts off is kept as far as it came.
func (d *debugging) take(ctx context.Context, file, endpoint string, params map[string]string) bool {
	err := d.store(ctx, file, endpoint, params)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil || ctx.Err() != nil {
		if d.flags.verbose {
			d.ui.Output("Taken: " + file)
		}
		return err == nil
	}
	var unexpected nomad.UnexpectedResponseError
	if errors.As(err, &unexpected) && unexpected.HasBody() {
		err = errors.New(unexpected.Body())
	}
	d.index.LeftOut = append(d.index.LeftOut, leftOut{file, err.Error()})
	d.ui.Error(fmt.Sprintf("Left out: %s: %v", file, err))
	return false
}

func (d *debugging) store(ctx context.Context, file, endpoint string, params map[string]string) error {
	q := &nomad.QueryOptions{Params: params}
	answer, err := d.client.Raw().Response(endpoint, q.WithContext(ctx))
	if err != nil {
		return err
	}
	defer answer.Close()
	if err := d.dir.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	f, err := d.dir.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err = io.Copy(f, io.LimitReader(answer, maxTaken)); err != nil {
		return err
	}
	return f.Close()
}

// debugIndex is what an archive says of itself.
type debugIndex struct {
	Version, NodeID string
	Files           []debugFile
	LeftOut         []leftOut // what could not be had
}

type debugFile struct {
	Path  string
	Bytes int64
}

type leftOut struct{ Path, Why string }

// writeIndex lists what is there.
func (d *debugging) writeIndex() error {
	d.index.Version, d.index.NodeID = agent.Version, d.node.ID
	err := fs.WalkDir(d.dir.FS(), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		d.index.Files = append(d.index.Files, debugFile{path, info.Size()})
		return nil
	})
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(d.index, "", "  ")
	if err != nil {
		return err
	}
	return d.dir.WriteFile("index.json", append(text, '\n'), 0o600)
}

// archive packs the one directory NAME that is in another into NAME.tar.gz, which must not be there.
func archive(parent, name string) (err error) {
	f, err := os.OpenFile(name+".tar.gz", os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if closed := f.Close(); err == nil {
			err = closed
		}
		if err != nil {
			_ = os.Remove(f.Name()) // half an archive is none
		}
	}()
	packed := gzip.NewWriter(f)
	files := tar.NewWriter(packed)
	if err := files.AddFS(os.DirFS(parent)); err != nil {
		return err
	}
	if err := files.Close(); err != nil {
		return err
	}
	return packed.Close()
}
