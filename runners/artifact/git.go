package artifact

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	getter "github.com/hashicorp/go-getter/v2"
)

// gitGetter clones repositories. It stands in for go-getter's, whose children outlive a
// cancelled clone and hold it up, which knows no bounds, and which lets the agent's own
// git configuration and a terminal answer for the job.
type gitGetter struct {
	stage    string
	limits   Limits
	progress func(done, size int64)
}

const (
	// gitGrace is how long a killed git's pipes may stay open.
	gitGrace = 2 * time.Second
	// gitLook is how often the size of what is being cloned is looked at.
	gitLook = 250 * time.Millisecond
	// maxGitOutput bounds what of git's output is kept for an error.
	maxGitOutput = 4 << 10
)

// Mode is a directory, always.
func (*gitGetter) Mode(context.Context, *url.URL) (getter.Mode, error) { return getter.ModeDir, nil }

// Detect takes what is marked as git's.
func (*gitGetter) Detect(req *getter.Request) (bool, error) { return req.Forced == "git", nil }

// GetFile is not possible.
func (*gitGetter) GetFile(context.Context, *getter.Request) error {
	return errors.New("a git repository is a directory")
}

// Get clones the repository, with its submodules, and checks out what is asked for.
func (g *gitGetter) Get(ctx context.Context, req *getter.Request) error {
	u := *req.URL()
	q := u.Query()
	ref, key := q.Get("ref"), q.Get("sshkey")
	depth, err := strconv.Atoi(q.Get("depth"))
	if q.Has("depth") && (err != nil || depth < 1) {
		return fmt.Errorf("%w: options: depth: %q is not a positive number", ErrRefused, q.Get("depth"))
	}
	for _, name := range []string{"ref", "sshkey", "depth"} {
		q.Del(name)
	}
	u.RawQuery = q.Encode()
	env, err := g.environ(key)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		g.watch(ctx, cancel)
	}()
	err = g.clone(ctx, env, u.String(), req.Dst, ref, depth)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	cancel(nil)
	<-watched
	if err == nil {
		return g.measure() // it may have grown since
	}
	return g.redacted(err, &u)
}

// redacted takes what may be secret of an address out of git's output about it.
func (g *gitGetter) redacted(err error, u *url.URL) error {
	if errors.Is(err, ErrRefused) {
		return err
	}
	output := err.Error()
	if u.User != nil {
		output = strings.ReplaceAll(output, u.User.String()+"@", "")
	}
	if u.RawQuery != "" {
		output = strings.ReplaceAll(output, "?"+u.RawQuery, "")
	}
	return errors.New(output)
}

func (g *gitGetter) clone(ctx context.Context, env []string, address, dst, ref string, depth int) error {
	clone, submodules := []string{"clone", "--quiet"}, []string{"-C", dst, "submodule", "--quiet", "update", "--init", "--recursive"}
	if depth > 0 {
		clone = append(clone, "--depth", strconv.Itoa(depth))
		submodules = append(submodules, "--depth", strconv.Itoa(depth))
		if ref != "" {
			clone, ref = append(clone, "--branch", ref), ""
		}
	}
	commands := [][]string{append(clone, "--", address, dst)}
	if ref != "" {
		commands = append(commands, []string{"-C", dst, "checkout", "--quiet", ref, "--"})
	}
	for _, args := range append(commands, submodules) {
		if err := git(ctx, env, args); err != nil {
			return err
		}
	}
	return nil
}

// git runs one command. Its whole process group ends with the context.
func git(ctx context.Context, env, args []string) error {
	var output tail
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = env, &output, &output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = gitGrace
	err := cmd.Run()
	if errors.Is(err, exec.ErrNotFound) {
		return errors.New("git is not installed on this node")
	}
	if err != nil && output.Len() > 0 {
		return fmt.Errorf("git %s: %s", subcommand(args), output.String())
	}
	return err
}

func subcommand(args []string) string {
	if args[0] == "-C" {
		args = args[2:]
	}
	return args[0]
}

// environ is what git sees of the agent: nothing that answers for it, no transport that
// runs commands or reads local files.
func (g *gitGetter) environ(sshKey string) ([]string, error) {
	env := []string{
		"HOME=" + g.stage, "LC_ALL=C", "GIT_TERMINAL_PROMPT=0",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_ALLOW_PROTOCOL=http:https:ssh:git",
	}
	for _, name := range []string{"PATH", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR"} {
		if value, set := os.LookupEnv(name); set {
			env = append(env, name+"="+value)
		}
	}
	ssh := "ssh -o BatchMode=yes"
	if sshKey != "" {
		key, err := base64.StdEncoding.DecodeString(sshKey)
		if err != nil {
			return nil, fmt.Errorf("%w: options: sshkey: it is not base64", ErrRefused)
		}
		file := filepath.Join(g.stage, "key")
		if err := os.WriteFile(file, key, 0o600); err != nil {
			return nil, err
		}
		ssh += " -o IdentitiesOnly=yes -i '" + strings.ReplaceAll(file, "'", `'\''`) + "'"
	}
	return append(env, "GIT_SSH_COMMAND="+ssh), nil
}

// watch ends a clone that grows too large.
func (g *gitGetter) watch(ctx context.Context, cancel context.CancelCauseFunc) {
	tick := time.NewTicker(gitLook)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := g.measure(); err != nil {
				cancel(err)
				return
			}
		}
	}
}

// measure counts the bytes that are staged. What vanishes meanwhile is not counted.
func (g *gitGetter) measure() error {
	left := &allowance{limits: g.limits, what: "clone"}
	err := filepath.WalkDir(g.stage, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e == nil {
			return nil
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			return left.take(info.Size())
		}
		return nil
	})
	g.progress(left.bytes, 0)
	return err
}

// tail keeps the end of what is written to it.
type tail struct{ bytes.Buffer }

func (t *tail) Write(p []byte) (int, error) {
	n, err := t.Buffer.Write(p)
	if over := t.Len() - maxGitOutput; over > 0 {
		t.Next(over)
	}
	return n, err
}
