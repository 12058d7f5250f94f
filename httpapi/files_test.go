package httpapi_test

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/agent/agenttest"
)

// printed runs a program that prints and ends, and returns its allocation.
func (w *world) printed(t testing.TB, id string, args ...string) *nomad.Allocation {
	t.Helper()
	stub := w.run(t, agenttest.Job(id, "wasi", map[string]any{"module": w.Program(t, "print"), "args": args}), nomad.AllocClientStatusComplete)
	return &nomad.Allocation{ID: stub.ID, NodeID: stub.NodeID}
}

func TestAnAllocationsFilesAreListedAndRead(t *testing.T) {
	w := newWorld(t, "wasi")
	a := w.printed(t, "files", "-n", "3")
	fs := w.Client.AllocFS()

	list, _, err := fs.List(a, "/", nil)
	require.NoError(t, err)
	var names []string
	for _, e := range list {
		require.True(t, e.IsDir)
		names = append(names, e.Name)
	}
	require.ElementsMatch(t, []string{"alloc", "task"}, names)

	const log, content = "alloc/logs/task.stdout.0", "line 1\nline 2\nline 3\n"
	info, _, err := fs.Stat(a, log, nil)
	require.NoError(t, err)
	require.Equal(t, "task.stdout.0", info.Name)
	require.Equal(t, int64(len(content)), info.Size)
	require.False(t, info.IsDir)
	require.NotZero(t, info.ModTime)

	cat, err := fs.Cat(a, log, nil)
	require.NoError(t, err)
	requireContent(t, content, cat)
	part, err := fs.ReadAt(a, log, 7, 6, nil)
	require.NoError(t, err)
	requireContent(t, "line 2", part)
	rest, err := fs.ReadAt(a, log, 14, -1, nil)
	require.NoError(t, err)
	requireContent(t, "line 3\n", rest)
	beyond, err := fs.ReadAt(a, log, 1000, -1, nil)
	require.NoError(t, err)
	requireContent(t, "", beyond)
}

// TestAFileIsFollowed writes a file of an allocation that is over, which nothing else does.
func TestAFileIsFollowed(t *testing.T) {
	w := newWorld(t, "wasi")
	a := w.printed(t, "followed", "-n", "3")
	const log = "alloc/logs/task.stdout.0"
	found, err := filepath.Glob(filepath.Join(filepath.Dir(w.Programs), "data", "*", a.ID, log))
	require.NoError(t, err)
	require.Len(t, found, 1)

	stop := make(chan struct{})
	defer close(stop)
	frames, _ := w.Client.AllocFS().Stream(a, log, nomad.OriginEnd, 7, stop, nil)
	next := func() *nomad.StreamFrame {
		for {
			select {
			case f := <-frames:
				if !f.IsHeartbeat() {
					return f
				}
			case <-time.After(10 * time.Second):
				require.FailNow(t, "nothing comes")
			}
		}
	}
	require.Equal(t, &nomad.StreamFrame{File: log, Data: []byte("line 3\n"), Offset: 21}, next())
	f, err := os.OpenFile(found[0], os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	defer f.Close()
	_, err = f.WriteString("more\n")
	require.NoError(t, err)
	require.Equal(t, &nomad.StreamFrame{File: log, Data: []byte("more\n"), Offset: 26}, next())
	require.NoError(t, f.Truncate(0))
	require.Equal(t, &nomad.StreamFrame{File: log, FileEvent: "file truncated"}, next())
	require.NoError(t, os.Remove(found[0]))
	require.Equal(t, &nomad.StreamFrame{File: log, FileEvent: "file deleted"}, next())

	b := w.printed(t, "whole", "-n", "1")
	r := w.get(t, "/v1/client/fs/stream/"+b.ID+"?follow=false&path="+log)
	require.Equal(t, http.StatusOK, r.status)
	require.Contains(t, r.body, `"Data":"bGluZSAxCg=="`)
}

func requireContent(t *testing.T, want string, r io.ReadCloser) {
	t.Helper()
	b, err := io.ReadAll(r)
	require.NoError(t, err)
	require.NoError(t, r.Close())
	require.Equal(t, want, string(b))
}

func TestFilesThatAreNotForReading(t *testing.T) {
	w := newWorld(t, "wasi")
	id := w.printed(t, "refused").ID
	for _, c := range []struct {
		name, path string
		status     int
		text       string
	}{
		{"an unknown allocation", "/v1/client/fs/ls/none?path=/", 404, `Unknown allocation "none"`},
		{"no such file", "/v1/client/fs/cat/" + id + "?path=alloc/none", 404, "none"},
		{"no such directory", "/v1/client/fs/ls/" + id + "?path=alloc/none", 404, "none"},
		{"nothing to stat", "/v1/client/fs/stat/" + id + "?path=alloc/none", 404, "none"},
		{"a directory's content", "/v1/client/fs/cat/" + id + "?path=alloc", 400, "is a directory"},
		{"a file's list", "/v1/client/fs/ls/" + id + "?path=alloc/logs/task.stdout.0", 400, "directory"},
		{"a task's secrets", "/v1/client/fs/ls/" + id + "?path=task/secrets", 403, "secrets"},
		{"a secret by a detour", "/v1/client/fs/cat/" + id + "?path=alloc/../task/secrets/x", 403, "secrets"},
		{"a bad offset", "/v1/client/fs/readat/" + id + "?path=alloc/logs/task.stdout.0&offset=x", 400, "error parsing offset"},
		{"no offset", "/v1/client/fs/readat/" + id + "?path=alloc/logs/task.stdout.0", 400, "error parsing offset"},
		{"a negative offset", "/v1/client/fs/readat/" + id + "?path=alloc/logs/task.stdout.0&offset=-1", 400, "error parsing offset"},
		{"a bad limit", "/v1/client/fs/readat/" + id + "?path=alloc/logs/task.stdout.0&offset=0&limit=x", 400, "error parsing limit"},
		{"a stream of no file", "/v1/client/fs/stream/" + id + "?path=alloc/none", 404, "none"},
		{"a stream of a directory", "/v1/client/fs/stream/" + id + "?path=alloc", 400, "is a directory"},
		{"a stream of a secret", "/v1/client/fs/stream/" + id + "?path=task/secrets/x", 403, "secrets"},
		{"a stream from nowhere", "/v1/client/fs/stream/" + id + "?path=alloc/logs/task.stdout.0&offset=-1", 400, "error parsing offset"},
		{"logs of no task", "/v1/client/fs/logs/" + id + "?type=stdout", 400, "must provide task name"},
		{"logs of no stream", "/v1/client/fs/logs/" + id + "?task=task", 400, "must provide log type (stdout/stderr)"},
		{"logs of another task", "/v1/client/fs/logs/" + id + "?task=other&type=stdout", 400, `unknown task name "other"`},
		{"logs of another allocation", "/v1/client/fs/logs/none?task=task&type=stdout", 404, `Unknown allocation "none"`},
		{"logs from nowhere", "/v1/client/fs/logs/" + id + "?task=task&type=stdout&origin=middle", 400, "must have a start or end origin"},
		{"logs from a bad offset", "/v1/client/fs/logs/" + id + "?task=task&type=stdout&offset=-1", 400, "error parsing offset"},
		{"logs that follow perhaps", "/v1/client/fs/logs/" + id + "?task=task&type=stdout&follow=perhaps", 400, "failed to parse follow field"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := w.get(t, c.path)
			require.Equal(t, c.status, r.status, r.body)
			require.Contains(t, r.body, c.text)
		})
	}
	t.Run("what is outside", func(t *testing.T) {
		for _, path := range []string{"../../../../../../etc/passwd", "/../../etc/passwd", "alloc/../../../x", "task/../../x", "alloc/%00"} {
			r := w.get(t, "/v1/client/fs/cat/"+id+"?path="+path)
			require.Contains(t, []int{400, 403, 404}, r.status, "%s: %s", path, r.body)
			require.NotContains(t, r.body, "root:")
		}
	})
}

func TestLogsAreSentAsFramesAndAsTheyAre(t *testing.T) {
	w := newWorld(t, "wasi")
	a := w.printed(t, "logs", "-n", "4")
	const content = "line 1\nline 2\nline 3\nline 4\n"
	for _, c := range []struct {
		name, origin string
		offset       int64
		want         string
	}{
		{"all", nomad.OriginStart, 0, content},
		{"from an offset", nomad.OriginStart, 7, content[7:]},
		{"the tail", nomad.OriginEnd, 7, "line 4\n"},
		{"more than all", nomad.OriginEnd, 1000, content},
		{"beyond the end", nomad.OriginStart, 1000, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, w.logs(t, a, false, c.origin, c.offset))
			require.Equal(t, c.want, w.logs(t, a, true, c.origin, c.offset), "following ends with the task")
			r := w.get(t, "/v1/client/fs/logs/"+a.ID+"?task=task&type=stdout&plain=true&origin="+c.origin+"&offset="+strconv.FormatInt(c.offset, 10))
			require.Equal(t, c.want, r.body)
			require.Equal(t, "text/plain; charset=utf-8", r.header.Get("Content-Type"))
		})
	}
	t.Run("the other stream", func(t *testing.T) {
		require.Empty(t, w.get(t, "/v1/client/fs/logs/"+a.ID+"?task=task&type=stderr&plain=true").body)
	})
}

// logs reads a log's frames until they end.
func (w *world) logs(t *testing.T, a *nomad.Allocation, follow bool, origin string, offset int64) string {
	t.Helper()
	frames, errs := w.Client.AllocFS().Logs(a, follow, "task", "stdout", origin, offset, nil, nil)
	var b strings.Builder
	for {
		select {
		case f, open := <-frames:
			if !open {
				return b.String()
			}
			b.Write(f.Data)
			if len(f.Data) > 0 {
				require.Equal(t, "alloc/logs/task.stdout.0", f.File)
			}
		case err := <-errs:
			require.NoError(t, err)
		case <-time.After(time.Minute):
			require.FailNow(t, "the log does not end")
		}
	}
}

func TestALogIsFollowedWhileItGrowsUntilTheReaderLeaves(t *testing.T) {
	w := newWorld(t, "wasi")
	stub := w.run(t, agenttest.Job("grows", "wasi", map[string]any{
		"module": w.Program(t, "print"), "args": []string{"-n", "1000000", "-every", "20ms"},
	}), nomad.AllocClientStatusRunning)
	cancel := make(chan struct{})
	frames, errs := w.Client.AllocFS().Logs(&nomad.Allocation{ID: stub.ID}, true, "task", "stdout", nomad.OriginStart, 0, cancel, nil)
	var seen strings.Builder
	for !strings.Contains(seen.String(), "line 20\n") {
		select {
		case f, open := <-frames:
			require.True(t, open, "the log ended at %q", seen.String())
			seen.Write(f.Data)
			require.Equal(t, int64(seen.Len()), f.Offset, "the position after the data")
		case err := <-errs:
			require.NoError(t, err)
		case <-time.After(time.Minute):
			require.FailNow(t, "the log stands still", seen.String())
		}
	}
	require.True(t, strings.HasPrefix(seen.String(), "line 1\nline 2\nline 3\n"))
	close(cancel)
	for open := true; open; { // the client ends only once what it has read was taken
		select {
		case _, open = <-frames:
		case err := <-errs:
			require.NoError(t, err)
		case <-time.After(time.Minute):
			require.FailNow(t, "the client does not end")
		}
	}
}

func TestAnIdleLogStreamSendsHeartbeats(t *testing.T) {
	w := newWorld(t, "mock")
	stub := w.run(t, mock("quiet", nil), nomad.AllocClientStatusRunning)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.URL+"/v1/client/fs/logs/"+stub.ID+"?task=task&type=stdout&follow=true", nil)
	require.NoError(t, err)
	resp, err := w.http.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	heartbeat := make([]byte, 2)
	_, err = io.ReadFull(resp.Body, heartbeat)
	require.NoError(t, err)
	require.Equal(t, "{}", string(heartbeat))
}

func TestATailAcrossRotatedFilesIsWhole(t *testing.T) {
	w := newWorld(t, "wasi")
	// Files of 1 MiB, of which two are kept: 1.5 MiB are in two files.
	a := w.printed(t, "rotated", "-n", "1536", "-width", "1023")
	list, _, err := w.Client.AllocFS().List(a, "alloc/logs", nil)
	require.NoError(t, err)
	files := 0
	for _, e := range list {
		if strings.HasPrefix(e.Name, "task.stdout.") {
			files++
		}
	}
	require.Equal(t, 2, files)
	r := w.get(t, "/v1/client/fs/logs/"+a.ID+"?task=task&type=stdout&plain=true&origin=end&offset="+strconv.Itoa(1000*1024))
	require.Len(t, r.body, 1000*1024)
	require.True(t, strings.HasPrefix(r.body, "line 537."), r.body[:20])
	require.Contains(t, r.body[len(r.body)-1024:], "line 1536.")
}
