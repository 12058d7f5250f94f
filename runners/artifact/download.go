package artifact

import (
	"context"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/dustin/go-humanize"
	getter "github.com/hashicorp/go-getter/v2"
)

// download gets the source into the stage and gives the path of the file or tree there.
func (s *source) download(ctx context.Context, stage string, limits Limits, progress func(done, size int64)) (string, error) {
	left := &allowance{limits: limits, what: "download"}
	transport := &metered{left: left, progress: progress, next: &http.Transport{
		Proxy:             http.ProxyFromEnvironment,
		DisableKeepAlives: true,                                        // nothing of it outlives the download
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: s.insecure}, // the job asks for it by name
	}}
	client := &getter.Client{
		Getters: []getter.Getter{
			&getter.HttpGetter{
				Client: &http.Client{Transport: transport}, Header: s.header,
				DoNotCheckHeadFirst: true, XTerraformGetDisabled: true,
			},
			&gitGetter{stage: stage, limits: limits, progress: progress},
		},
		Decompressors:   map[string]getter.Decompressor{"": nil}, // unpacking is ours, as it is bounded
		DisableSymlinks: true,
	}
	req := &getter.Request{Src: s.url.String(), Dst: filepath.Join(stage, "file"), GetMode: getter.ModeFile}
	if s.git {
		req.Src, req.Dst, req.GetMode = "git::"+req.Src, filepath.Join(stage, "tree"), getter.ModeDir
	}
	if _, err := client.Get(ctx, req); err != nil {
		return "", downloadError(err)
	}
	return req.Dst, nil
}

// downloadError describes in one line, without the address and what is secret in it, what
// failed.
func downloadError(err error) error {
	var file *fs.PathError
	if errors.Is(err, ErrRefused) || errors.As(err, &file) {
		return err
	}
	var sum *getter.ChecksumError
	if errors.As(err, &sum) {
		return fmt.Errorf("checksum does not match: want %s, got %s", hex.EncodeToString(sum.Expected), hex.EncodeToString(sum.Actual))
	}
	var where *url.Error
	if errors.As(err, &where) {
		err = where.Err
	}
	return errors.New(strings.Join(strings.Fields(err.Error()), " "))
}

// metered counts what is read of all answers together.
type metered struct {
	left     *allowance
	progress func(done, size int64)
	next     http.RoundTripper
}

func (m *metered) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := m.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	resp.Body = &meteredBody{ReadCloser: resp.Body, metered: m, size: max(0, resp.ContentLength)}
	return resp, nil
}

type meteredBody struct {
	io.ReadCloser
	*metered
	done, size int64
}

func (b *meteredBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.done += int64(n)
	b.progress(b.done, b.size)
	if over := b.left.take(int64(n)); over != nil {
		return n, over
	}
	return n, err
}

// allowance is what was read or written, and may be at most. It belongs to one goroutine.
type allowance struct {
	limits Limits
	what   string
	bytes  int64
	files  int64
}

func (a *allowance) take(n int64) error {
	if a.bytes += n; a.bytes > a.limits.Bytes {
		return fmt.Errorf("%w: %s: it is larger than the %s that this node allows", ErrRefused, a.what, humanize.IBytes(uint64(a.limits.Bytes)))
	}
	return nil
}

func (a *allowance) takeFile() error {
	if a.files++; a.files > a.limits.Files {
		return tooManyFiles(a.what, a.limits)
	}
	return nil
}

func tooManyFiles(what string, limits Limits) error {
	return fmt.Errorf("%w: %s: it has more than the %d files that this node allows", ErrRefused, what, limits.Files)
}
