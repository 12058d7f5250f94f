package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/config"
	"github.com/wasmnode/wasmnode/sdk/go/driver"
	"github.com/wasmnode/wasmnode/sdk/go/plainhttp"
	"github.com/wasmnode/wasmnode/sdk/go/task"
	"github.com/wasmnode/wasmnode/sdk/go/taskpath"
)

// reference is an image's name: REPOSITORY[:TAG] or REPOSITORY@DIGEST, and as it was written.
type reference struct{ repository, tag, written string }

func parseReference(image string) reference {
	image = strings.TrimPrefix(strings.TrimPrefix(image, "https://"), "http://")
	if repository, digest, found := strings.Cut(image, "@"); found {
		return reference{repository, digest, image}
	}
	if i := strings.LastIndexByte(image, ':'); i > strings.LastIndexByte(image, '/') {
		return reference{image[:i], image[i+1:], image}
	}
	return reference{image, "latest", image}
}

func (r reference) String() string {
	if strings.Contains(r.tag, ":") {
		return r.repository + "@" + r.tag
	}
	return r.repository + ":" + r.tag
}

// provideImage makes sure that the engine has the task's image, and returns its name and its
// ID. One with the tag latest, or with force_pull, is asked for anew each time, as Nomad does.
func (d *docker) provideImage(ctx context.Context, t *driver.TaskConfig, c config.Value) (name, id string, err error) {
	r := parseReference(c.Get("image").Text())
	if !c.Get("force_pull").Bool() && r.tag != "latest" {
		if id, err = d.imageID(ctx, r); err == nil {
			return r.String(), id, nil
		}
		if !absent(err) {
			return "", "", about("Failed to find docker image "+r.String(), err)
		}
	}
	if file := c.Get("load").Text(); file != "" {
		if err := d.load(ctx, t, file); err != nil {
			return "", "", err
		}
		if id, err = d.imageID(ctx, r); absent(err) {
			err = abi.NewError(abi.NotFound, "the image archive "+strconv.Quote(file)+" has no image "+r.String())
		}
		return r.String(), id, err
	}
	if err := tell(ctx, t, "Downloading image", r); err != nil && !isCode(err, abi.ResourceExhausted) {
		return "", "", err
	}
	if err := d.pull(ctx, t, c, r); err != nil {
		return "", "", pullError(r, err)
	}
	if id, err = d.imageID(ctx, r); absent(err) {
		err = pullError(r, abi.NewRecoverableError(abi.Unavailable, "the engine has no such image after the pull"))
	}
	return r.String(), id, err
}

func (d *docker) imageID(ctx context.Context, r reference) (string, error) {
	v, err := d.engine.get(ctx, imagePath(r.String())+"/json", nil)
	return v.Get("Id").Text(), err
}

// load hands the engine an archive in the task's local directory, which no link leads to.
func (d *docker) load(ctx context.Context, t *driver.TaskConfig, file string) error {
	inside := path.Join("/", file)
	archive, err := openArchive(ctx, t, inside)
	if err != nil {
		why := err
		if e := (*fs.PathError)(nil); errors.As(err, &e) {
			why = e.Err
		}
		return abi.NewError(abi.NotFound, "unable to open image archive: open "+path.Join(t.Directories.Local, inside)+": "+strings.ToLower(why.Error()))
	}
	defer func() { _ = archive.Close() }()
	response, err := d.engine.send(ctx, request{
		method: "POST", path: "/images/load", query: url.Values{"quiet": {"1"}}, stream: archive, lasting: true,
		header: []*plainhttp.Header{{Name: "Content-Type", Value: "application/x-tar"}},
	})
	if err != nil {
		return loadError(file, abi.CodeOf(err), err.Error())
	}
	defer func() { _ = response.Close() }()
	answers := newLines(response)
	for answers.Scan() {
		if v, err := config.Parse(bytes.TrimSpace(answers.Bytes())); err == nil && v.Get("error").Text() != "" {
			return loadError(file, abi.InvalidArgument, v.Get("error").Text())
		}
	}
	if err := answers.Err(); err != nil {
		return loadError(file, abi.CodeOf(err), err.Error())
	}
	return nil
}

func openArchive(ctx context.Context, t *driver.TaskConfig, inside string) (*os.File, error) {
	if _, _, err := taskpath.Lstat(ctx, t.Directories, path.Join(t.Directories.Local, inside)); err != nil {
		return nil, err
	}
	return os.Open(path.Join(task.Dir(ctx), "local", inside))
}

// loadError is why an engine did not take an archive, in one sentence. Another time may help only
// where the engine could not be asked, or is full.
func loadError(file string, code abi.Code, why string) error {
	text := "Failed to load image archive " + file + ": " + strings.Join(strings.Fields(why), " ")
	unasked := code == abi.Unavailable && !strings.Contains(why, "Error response from daemon")
	if unasked || code == abi.DeadlineExceeded || strings.Contains(why, "no space left") {
		return abi.NewRecoverableError(code, text)
	}
	return abi.NewError(code, text)
}

// newLines reads what an engine says of its work, an object a line.
func newLines(response io.Reader) *bufio.Scanner {
	lines := bufio.NewScanner(response)
	lines.Buffer(nil, 1<<20)
	return lines
}

// pull has the engine pull an image. What goes wrong after the beginning is in the answer.
func (d *docker) pull(ctx context.Context, t *driver.TaskConfig, c config.Value, r reference) error {
	timeout, err := c.Get("image_pull_timeout").Duration()
	if err != nil {
		return abi.NewError(abi.InvalidArgument, "image_pull_timeout: "+err.Error())
	}
	header, err := d.credentials(ctx, c, r)
	if err != nil {
		return err
	}
	response, err := d.engine.send(ctx, request{
		method: "POST", path: "/images/create", query: url.Values{"fromImage": {r.repository}, "tag": {r.tag}}, header: header,
		timeout: timeout, lasting: true,
	})
	if err != nil {
		return err
	}
	defer func() { _ = response.Close() }()
	lines := newLines(response)
	far := newProgress(time.Now())
	for lines.Scan() {
		v, err := config.Parse(bytes.TrimSpace(lines.Bytes()))
		if err != nil {
			continue // what an engine says besides is not for us
		}
		if text := v.Get("error").Text(); text != "" {
			return abi.NewRecoverableError(abi.Unavailable, text)
		}
		if text := far.take(time.Now(), v); text != "" {
			_ = tell(ctx, t, text, r) // too many events are no reason to stop
		}
	}
	return lines.Err()
}

// tell adds an event to those of the task that an image is for, if it is for one.
func tell(ctx context.Context, t *driver.TaskConfig, text string, r reference) error {
	if t.Id == "" {
		return nil
	}
	return task.Event(ctx, t.Id, text, map[string]string{"image": r.String()})
}

// final are parts of what registries and engines say where trying again cannot help.
var final = []string{
	"not found", "manifest unknown", "does not exist", "pull access denied", "unauthorized", "authentication required", "denied:",
	"invalid reference", "no basic auth", "incorrect username or password", "manifest invalid", "no matching manifest",
}

// pullError is why an image could not be pulled, in one sentence.
func pullError(r reference, err error) error {
	text := "Failed to pull `" + r.written + "`: " + strings.Join(strings.Fields(err.Error()), " ")
	lower := strings.ToLower(text)
	for _, part := range final {
		if strings.Contains(lower, part) {
			return abi.NewError(abi.NotFound, text)
		}
	}
	if isCode(err, abi.DeadlineExceeded) {
		text = "Failed to pull `" + r.written + "`: it took longer than image_pull_timeout"
	}
	if code := abi.CodeOf(err); code != abi.Unknown && !abi.IsRecoverable(err) {
		return abi.NewError(code, text)
	}
	return abi.NewRecoverableError(abi.Unavailable, text)
}
