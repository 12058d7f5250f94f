package check

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/wasmnode/wasmnode/runners/taskenv"
	"github.com/wasmnode/wasmnode/structs"
	"github.com/wasmnode/wasmnode/workload"
)

// maxOutput bounds what is kept of an answer: Nomad's 3 KiB.
const maxOutput = 3 << 10

// Target is where a check's allocation is.
type Target struct {
	AllocID string
	Name    string // the allocation's
	Ports   []structs.AllocatedPort
	// Env is what references in the check are replaced with.
	Env *taskenv.Env
	// Exec runs a command in the check's task, until ctx ends. It may be nil when the
	// check is not a script.
	Exec func(ctx context.Context, spec *workload.ExecSpec) (*structs.ExitResult, error)
}

// Pending is the result of a check that has not run.
func (c *Check) Pending(t Target) structs.CheckResult {
	return structs.CheckResult{
		ID: c.ID(t.AllocID), Mode: c.Mode, Status: structs.CheckPending, Output: "nomad: waiting to run",
		Group: t.Name, Task: c.Task, Service: t.Env.Replace(c.Service), Check: t.Env.Replace(c.Name),
	}
}

// Probe runs the check once: for at most its timeout, and not longer than ctx.
func (c *Check) Probe(ctx context.Context, t Target) structs.CheckResult {
	ctx, cancel := context.WithTimeoutCause(ctx, c.Timeout, fmt.Errorf("no answer within %v", c.Timeout))
	defer cancel()
	out := c.Pending(t)
	out.Timestamp = time.Now().Unix()
	err := c.ask(ctx, t, &out)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		out.Status, out.Output = structs.CheckFailure, "nomad: "+err.Error()
	}
	return out
}

// ask sends the probe of the check's type.
func (c *Check) ask(ctx context.Context, t Target, out *structs.CheckResult) error {
	if c.block.Type == scriptType {
		return c.script(ctx, t, out)
	}
	addr, err := c.addr(t)
	if err != nil {
		return err
	}
	if c.block.Type == "http" {
		return c.http(ctx, t, addr, out)
	}
	return c.tcp(ctx, addr, out)
}

// addr is the host's address of the check's port.
func (c *Check) addr(t Target) (string, error) {
	label, host := t.Env.Replace(c.port), t.Env.Replace(c.address)
	if host == "" {
		host = "127.0.0.1"
		if len(t.Ports) > 0 && t.Ports[0].HostIP != "" {
			host = t.Ports[0].HostIP
		}
	}
	for _, p := range t.Ports {
		if p.Label != label {
			continue
		}
		if p.HostIP != "" && c.address == "" {
			host = p.HostIP
		}
		return net.JoinHostPort(host, strconv.Itoa(p.Value)), nil
	}
	if n, err := strconv.ParseUint(label, 10, 16); err == nil && n > 0 {
		return net.JoinHostPort(host, label), nil
	}
	return "", fmt.Errorf("the allocation has no port %q", label)
}

func (c *Check) tcp(ctx context.Context, addr string, out *structs.CheckResult) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	_ = conn.Close() // it was accepted, which is all that was asked
	out.Status, out.Output = structs.CheckSuccess, "nomad: tcp ok"
	return nil
}

func (c *Check) http(ctx context.Context, t Target, addr string, out *structs.CheckResult) error {
	req, err := c.request(ctx, t, addr)
	if err != nil {
		return err
	}
	transport := &http.Transport{
		DisableKeepAlives: true, // each run asks whether it can connect, too
		TLSClientConfig: &tls.Config{
			InsecureSkipVerify: c.block.TLSSkipVerify, // the job asks for it by name
			ServerName:         t.Env.Replace(c.block.TLSServerName),
		},
	}
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		var where *url.Error
		if errors.As(err, &where) {
			err = where.Err
		}
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	out.StatusCode = resp.StatusCode
	if resp.StatusCode < http.StatusBadRequest {
		out.Status, out.Output = structs.CheckSuccess, "nomad: http ok"
		return nil
	}
	said, err := io.ReadAll(io.LimitReader(resp.Body, maxOutput))
	if err != nil {
		return err
	}
	out.Status, out.Output = structs.CheckFailure, strings.ToValidUTF8(string(said), "")
	return nil
}

func (c *Check) request(ctx context.Context, t Target, addr string) (*http.Request, error) {
	scheme, method := c.block.Protocol, c.block.Method
	if scheme == "" {
		scheme = "http"
	}
	if method == "" {
		method = http.MethodGet
	}
	at, err := url.Parse(t.Env.Replace(c.block.Path))
	if err != nil {
		return nil, err
	}
	base := &url.URL{Scheme: scheme, Host: addr, Path: "/"}
	req, err := http.NewRequestWithContext(ctx, strings.ToUpper(method), base.ResolveReference(at).String(), strings.NewReader(t.Env.Replace(c.block.Body)))
	if err != nil {
		return nil, err
	}
	if req.URL.Host != addr {
		return nil, fmt.Errorf("path: %q leads to another host", c.block.Path)
	}
	for name, values := range c.block.Header {
		for _, v := range values {
			req.Header.Add(t.Env.Replace(name), t.Env.Replace(v))
		}
	}
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
	}
	return req, nil
}
