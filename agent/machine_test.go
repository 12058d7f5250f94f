package agent

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/agent/config"
	"github.com/wasmnode/wasmnode/clientapi"
)

func TestTheMachineIsToldWithoutSecrets(t *testing.T) {
	t.Setenv("NOMAD_TOKEN", "a secret")
	t.Setenv("TZ", "Europe/Berlin")
	m := (&agent{cfg: config.Config{DataDir: t.TempDir()}}).machine()
	require.Equal(t, "<redacted>", m.Environment["NOMAD_TOKEN"])
	require.Equal(t, "Europe/Berlin", m.Environment["TZ"])
	require.NotEmpty(t, m.OS)
	require.NotEmpty(t, m.Addresses)
	require.Equal(t, "/", m.Disks[0].Path)
	require.Positive(t, m.Disks[0].Total)
}

// What journalctl is asked, and how it ends, is seen with a program of its name.
func TestTheJournalIsReadWithSystemdsProgram(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	program := func(script string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "journalctl"), []byte("#!/bin/sh\n"+script), 0o700))
	}
	read := func(q clientapi.JournalQuery) (string, error) {
		r, err := journal(t.Context(), q)
		require.NoError(t, err)
		defer r.Close()
		text, err := io.ReadAll(r)
		return string(text), err
	}
	program(`for a; do echo "$a"; done`)
	text, err := read(clientapi.JournalQuery{Service: "wasmnode", Since: time.Hour})
	require.NoError(t, err)
	require.Equal(t, "--no-pager\n--unit=wasmnode\n--since=3600 seconds ago\n", text)
	text, err = read(clientapi.JournalQuery{Service: "wasmnode", Since: time.Hour, Follow: true})
	require.NoError(t, err)
	require.Contains(t, text, "--follow\n")

	program("echo no such journal >&2; exit 3")
	_, err = read(clientapi.JournalQuery{})
	require.EqualError(t, err, "journalctl: no such journal: exit status 3")

	program("echo begun; exec sleep 1000")
	ctx, cancel := context.WithCancel(t.Context())
	r, err := journal(ctx, clientapi.JournalQuery{Follow: true})
	require.NoError(t, err)
	first := make([]byte, 6)
	_, err = io.ReadFull(r, first)
	require.NoError(t, err)
	cancel()
	_, err = r.Read(first)
	require.Error(t, err)
	require.NoError(t, r.Close())

	t.Setenv("PATH", t.TempDir())
	_, err = journal(t.Context(), clientapi.JournalQuery{})
	require.ErrorContains(t, err, "executable file not found")
}
