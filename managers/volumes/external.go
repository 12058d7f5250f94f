package volumes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hashicorp/go-version"
	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/structs"
)

// The bounds of plugins. Times are Nomad's.
const (
	pluginTime      = time.Minute
	fingerprintTime = 5 * time.Second
	// pipeTime is how long what a plugin has left running may keep its output open.
	pipeTime = time.Second
	// maxOutput is how many bytes a plugin may answer, and how much of what it complains of is
	// looked at.
	maxOutput = 64 << 10
	// maxComplaint is how much of that is shown.
	maxComplaint = 300
	// pluginsAtOnce run beside each other; others wait.
	pluginsAtOnce = 8
	// maxPlugins are looked at in the directory.
	maxPlugins = 100
)

// validPlugin is what a plugin may be named: it is a file's name, and part of an attribute's.
var validPlugin = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}$`)

// external is a program of Nomad's protocol: it gets the operation as its argument and in its
// environment, with what else there is to know, and answers with JSON.
type external struct {
	name    string
	cfg     Config
	running chan struct{}
}

// pluginAnswer is what a plugin says of any operation.
type pluginAnswer struct {
	Version string `json:"version"`
	Path    string `json:"path"`
	Bytes   int64  `json:"bytes"`
	Error   string `json:"error"`
}

func (p external) fingerprint(ctx context.Context) (string, error) {
	out, err := p.run(ctx, fingerprintTime, "fingerprint", nil)
	var answer pluginAnswer
	if err == nil {
		answer, err = parse(out)
	}
	if err == nil {
		var v *version.Version
		if v, err = version.NewVersion(answer.Version); err == nil {
			return v.String(), nil
		}
		err = fmt.Errorf("%q is no version", answer.Version)
	}
	return "", fmt.Errorf("host volume plugin %q: fingerprint: %w", p.name, err)
}

func (p external) create(ctx context.Context, v *nomad.HostVolume) (made structs.MadeVolume, err error) {
	env := append(p.env(v),
		"DHV_CAPACITY_MIN_BYTES="+strconv.FormatInt(v.RequestedCapacityMinBytes, 10),
		"DHV_CAPACITY_MAX_BYTES="+strconv.FormatInt(v.RequestedCapacityMaxBytes, 10))
	out, err := p.run(ctx, pluginTime, "create", env)
	if err != nil {
		return made, err
	}
	answer, err := parse(out)
	switch {
	case err != nil:
		return made, err
	case answer.Path == "":
		return made, errors.New("its answer has no path")
	case answer.Bytes < 0:
		return made, fmt.Errorf("its answer has %d bytes", answer.Bytes)
	}
	return structs.MadeVolume{Path: answer.Path, CapacityBytes: answer.Bytes}, nil
}

func (p external) remove(ctx context.Context, v *nomad.HostVolume) error {
	_, err := p.run(ctx, pluginTime, "delete", append(p.env(v), "DHV_CREATED_PATH="+v.HostPath))
	return err
}

// env is what a plugin is told of a volume, with Nomad's names.
func (p external) env(v *nomad.HostVolume) []string {
	parameters, _ := json.Marshal(v.Parameters) // a map of texts always can be
	return []string{
		"DHV_VOLUMES_DIR=" + p.cfg.Dir,
		"DHV_PLUGIN_DIR=" + p.cfg.PluginDir,
		"DHV_NODE_POOL=" + p.cfg.NodePool,
		"DHV_NODE_ID=" + v.NodeID,
		"DHV_NAMESPACE=" + v.Namespace,
		"DHV_VOLUME_NAME=" + v.Name,
		"DHV_VOLUME_ID=" + v.ID,
		"DHV_PARAMETERS=" + string(parameters),
	}
}

// parse reads an answer, which is one JSON object.
func parse(out []byte) (answer pluginAnswer, err error) {
	if err := json.Unmarshal(out, &answer); err != nil {
		return answer, fmt.Errorf("its answer is not the JSON that it should be: %s", excerpt(out))
	}
	return answer, nil
}

// run runs the program once, in a process group of its own that ends with it when it takes
// too long, or answers too much. The process ends with the agent, too.
func (p external) run(ctx context.Context, longest time.Duration, operation string, env []string) ([]byte, error) {
	select {
	case p.running <- struct{}{}:
		defer func() { <-p.running }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	ctx, cancel := context.WithTimeoutCause(ctx, longest, fmt.Errorf("it did not answer within %s", longest))
	defer cancel()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	out := &bounded{full: func() { end(fmt.Errorf("it answered with more than %d bytes", maxOutput)) }}
	complaints := &bounded{full: func() {}}
	cmd := exec.CommandContext(ctx, filepath.Join(p.cfg.PluginDir, p.name), operation)
	cmd.Dir, cmd.Env = p.cfg.PluginDir, append(env, "DHV_OPERATION="+operation)
	cmd.Stdout, cmd.Stderr = out, complaints
	cmd.WaitDelay = pipeTime
	// What it is to end with is the thread that starts it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	apart(cmd)
	err := cmd.Run()
	p.cfg.Logger.Debug("a host volume plugin has run", "plugin", p.name, "operation", operation, "error", err, "stderr", complaints.buf.String())
	if cause := context.Cause(ctx); cause != nil {
		return nil, cause
	}
	if errors.Is(err, exec.ErrWaitDelay) { // it has ended, and something of it has not
		err = nil
	}
	if err != nil {
		return nil, fmt.Errorf("%w%s", err, complaint(out.buf.Bytes(), complaints.buf.Bytes()))
	}
	return out.buf.Bytes(), nil
}

// complaint is why a plugin failed, as it says itself.
func complaint(out, stderr []byte) string {
	var answer pluginAnswer
	if json.Unmarshal(out, &answer) == nil && answer.Error != "" {
		return ": " + excerpt([]byte(answer.Error))
	}
	if text := bytes.TrimSpace(stderr); len(text) > 0 {
		return ": " + excerpt(text[bytes.LastIndexByte(text, '\n')+1:])
	}
	return ""
}

// excerpt is the beginning of what a plugin says, on one line.
func excerpt(text []byte) string {
	text = bytes.TrimSpace(text)
	if len(text) == 0 {
		return "it is empty"
	}
	more := ""
	if len(text) > maxComplaint {
		text, more = text[:maxComplaint], "…"
	}
	line := strings.Map(func(r rune) rune {
		if r == utf8.RuneError || r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, string(text))
	return line + more
}

// bounded keeps the beginning of what is written, and tells once when there is more.
type bounded struct {
	buf  bytes.Buffer
	full func()
	told bool
}

// Write implements [io.Writer].
func (b *bounded) Write(p []byte) (int, error) {
	room := maxOutput - b.buf.Len()
	b.buf.Write(p[:min(len(p), room)])
	if len(p) > room && !b.told {
		b.told = true
		b.full()
	}
	return len(p), nil
}
