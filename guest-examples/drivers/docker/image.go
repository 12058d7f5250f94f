package main

import (
	"bufio"
	"bytes"
	"context"
	"net/url"
	"strings"
	"time"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/config"
	"github.com/wasmnode/wasmnode/sdk/go/driver"
	"github.com/wasmnode/wasmnode/sdk/go/plainhttp"
	"github.com/wasmnode/wasmnode/sdk/go/task"
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
	if c.Get("load").Text() != "" {
		return "", "", abi.NewError(abi.InvalidArgument, "load is not supported: load the image into the engine beforehand, or name a registry's")
	}
	r := parseReference(c.Get("image").Text())
	if !c.Get("force_pull").Bool() && r.tag != "latest" {
		if id, err = d.imageID(ctx, r); err == nil {
			return r.String(), id, nil
		}
		if !absent(err) {
			return "", "", about("Failed to find docker image "+r.String(), err)
		}
	}
	if err := task.Event(ctx, t.Id, "Downloading image", map[string]string{"image": r.String()}); err != nil && !isCode(err, abi.ResourceExhausted) {
		return "", "", err
	}
	if err := d.pull(ctx, t, c, r); err != nil {
		return "", "", pullError(r, err)
	}
	id, err = d.imageID(ctx, r)
	return r.String(), id, err
}

func (d *docker) imageID(ctx context.Context, r reference) (string, error) {
	v, err := d.engine.get(ctx, imagePath(r.String())+"/json", nil)
	return v.Get("Id").Text(), err
}

// pull has the engine pull an image. What goes wrong after the beginning is in the answer.
func (d *docker) pull(ctx context.Context, t *driver.TaskConfig, c config.Value, r reference) error {
	timeout, err := c.Get("image_pull_timeout").Duration()
	if err != nil {
		return abi.NewError(abi.InvalidArgument, "image_pull_timeout: "+err.Error())
	}
	response, err := d.engine.send(ctx, request{
		method: "POST", path: "/images/create", query: url.Values{"fromImage": {r.repository}, "tag": {r.tag}}, header: credentials(c.Get("auth")),
		timeout: timeout,
	})
	if err != nil {
		return err
	}
	defer func() { _ = response.Close() }()
	lines := bufio.NewScanner(response)
	lines.Buffer(nil, 1<<20)
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
			_ = task.Event(ctx, t.Id, text, map[string]string{"image": r.String()}) // too many events are no reason to stop
		}
	}
	return lines.Err()
}

// credentials are a header of the engine's API.
func credentials(auth config.Value) []*plainhttp.Header {
	if auth.Get("username").Text() == "" && auth.Get("password").Text() == "" {
		return nil
	}
	var o object
	o.text("username", auth.Get("username").Text())
	o.text("password", auth.Get("password").Text())
	o.text("email", auth.Get("email").Text())
	o.text("serveraddress", auth.Get("server_address").Text())
	return []*plainhttp.Header{{Name: "X-Registry-Auth", Value: base64URL(o.encoded())}}
}

// final are parts of what registries and engines say where trying again cannot help.
var final = []string{
	"not found", "manifest unknown", "does not exist", "pull access denied", "unauthorized", "authentication required", "denied:",
	"invalid reference", "no basic auth", "incorrect username or password", "manifest invalid", "no matching manifest", "no space left",
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
	if code := abi.CodeOf(err); code == abi.InvalidArgument || code == abi.PermissionDenied {
		return abi.NewError(code, text)
	}
	return abi.NewRecoverableError(abi.Unavailable, text)
}
