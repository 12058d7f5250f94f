package standalone

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	snapshotfile "github.com/wasmnode/wasmnode/controlplane/snapshot"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

// secret is a value that must not be found anywhere.
const secret = "s3cr3t-v4lue-that-nobody-else-writes"

func variable(path string, items ...string) *nomad.Variable {
	v := &nomad.Variable{Namespace: "default", Path: path, Items: nomad.VariableItems{}}
	for i := 0; i < len(items); i += 2 {
		v.Items[items[i]] = items[i+1]
	}
	return v
}

// variablesOf is what is no secret of all variables.
func variablesOf(cp *ControlPlane) []*nomad.VariableMetadata {
	return cp.VariablesFrom("", "", false, maxVariables)
}

func putVariable(t *testing.T, cp *ControlPlane, v *nomad.Variable) *nomad.Variable {
	t.Helper()
	put, conflict, err := cp.PutVariable(v, nil)
	require.NoError(t, err)
	require.Nil(t, conflict)
	return put
}

// itemsOf reads a variable that must be there.
func itemsOf(t *testing.T, cp *ControlPlane, path string) nomad.VariableItems {
	t.Helper()
	v, err := cp.Variable("default", path)
	require.NoError(t, err)
	require.NotNil(t, v, path)
	return v.Items
}

func TestAVariableIsKeptOverARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "server.db")
	cp := open(t, path)
	first := putVariable(t, cp, variable("app/db", "user", "root", "password", secret))
	require.Equal(t, first.CreateIndex, first.ModifyIndex)
	require.NotZero(t, first.CreateTime)
	second := putVariable(t, cp, variable("app/db", "password", secret+"2"))
	require.Equal(t, first.CreateIndex, second.CreateIndex)
	require.Equal(t, first.CreateTime, second.CreateTime)
	require.Greater(t, second.ModifyIndex, first.ModifyIndex)
	require.NoError(t, cp.Close())

	cp = open(t, path)
	read, err := cp.Variable("default", "app/db")
	require.NoError(t, err)
	require.Equal(t, second, read)
	require.Equal(t, []*nomad.VariableMetadata{second.Metadata()}, variablesOf(cp))
	none, err := cp.Variable("default", "app")
	require.NoError(t, err)
	require.Nil(t, none)
	conflict, err := cp.DeleteVariable("default", "app/db", nil)
	require.NoError(t, err)
	require.Nil(t, conflict)
	require.NoError(t, cp.Close())
	require.Empty(t, variablesOf(open(t, path)))
}

func TestAVariableIsCheckedAndSet(t *testing.T) {
	cp := open(t, "")
	index := func(n uint64) *uint64 { return &n }
	put, conflict, err := cp.PutVariable(variable("a", "k", "1"), index(7))
	require.NoError(t, err)
	require.Nil(t, put)
	require.Equal(t, &nomad.Variable{Namespace: "default", Path: "a"}, conflict, "there is none")
	require.Empty(t, variablesOf(cp))
	before := cp.Index(TableVariables)

	one, conflict, err := cp.PutVariable(variable("a", "k", "1"), index(0))
	require.NoError(t, err)
	require.Nil(t, conflict)
	require.Greater(t, cp.Index(TableVariables), before)
	for _, check := range []uint64{0, one.ModifyIndex - 1, one.ModifyIndex + 1} {
		put, conflict, err = cp.PutVariable(variable("a", "k", "2"), &check)
		require.NoError(t, err)
		require.Nil(t, put)
		require.Equal(t, one, conflict, "the present one, whole")
		conflict, err = cp.DeleteVariable("default", "a", &check)
		require.NoError(t, err)
		require.Equal(t, one, conflict)
	}
	two, conflict, err := cp.PutVariable(variable("a", "k", "2"), &one.ModifyIndex)
	require.NoError(t, err)
	require.Nil(t, conflict)
	conflict, err = cp.DeleteVariable("default", "a", &two.ModifyIndex)
	require.NoError(t, err)
	require.Nil(t, conflict)

	at := cp.Index(TableVariables)
	for _, c := range []struct {
		check    *uint64
		conflict bool
	}{{nil, false}, {index(0), false}, {index(9), true}} {
		conflict, err = cp.DeleteVariable("default", "a", c.check)
		require.NoError(t, err)
		require.Equal(t, c.conflict, conflict != nil)
	}
	require.Equal(t, at, cp.Index(TableVariables), "nothing has changed")
}

// Paths, sizes and texts are Nomad's.
func TestWhatAVariableCanBe(t *testing.T) {
	cp := open(t, "")
	long := strings.Repeat("p", 128)
	for _, path := range []string{
		"a", "a/b/c", "A-Z_~/0", long, "-", "nomad/jobs", "nomad/jobs/web/group/task", "nomad/job-templates/x", "nomads", "x/nomad",
	} {
		putVariable(t, cp, variable(path, "k", "v"))
		require.Equal(t, nomad.VariableItems{"k": "v"}, itemsOf(t, cp, path))
	}
	for path, fault := range map[string]string{
		"":                        "variable requires path",
		long + "p":                "invalid path",
		"a.b":                     `invalid path "a.b"`,
		"a b":                     `invalid path "a b"`,
		"a@b":                     "invalid path",
		"ä":                       "invalid path",
		"a\x00b":                  "invalid path",
		"a\n":                     "invalid path",
		"nomad":                   `"nomad" is a reserved top-level directory path`,
		"nomad/":                  `only paths at "nomad/jobs"`,
		"nomad/x":                 `only paths at "nomad/jobs" or "nomad/job-templates" and below`,
		"nomad/job-templates":     `"nomad/job-templates" is a reserved directory path`,
		"nomad/job-templates/x/y": `"nomad/job-templates" is a reserved directory path`,
		"nomad/jobsx":             `only paths at`,
	} {
		_, _, err := cp.PutVariable(variable(path, "k", "v"), nil)
		require.ErrorContains(t, err, fault, "%q", path)
		require.Equal(t, errdefs.InvalidArgument, errdefs.ClassOf(err))
	}
	full := strings.Repeat("v", maxVariableSize-1)
	putVariable(t, cp, variable("full", "k", full))
	require.Len(t, itemsOf(t, cp, "full")["k"], maxVariableSize-1)
	odd := variable("odd", "", "", "a.b \x01", "\u2028 ä \"\n", "k=", "@x")
	putVariable(t, cp, odd)
	require.Equal(t, odd.Items, itemsOf(t, cp, "odd"))
	for fault, v := range map[string]*nomad.Variable{
		"limited to 64KiB":                             variable("full", "k", full, "l", ""),
		"empty variables":                              variable("empty"),
		`can not target wildcard`:                      {Namespace: "*", Path: "a", Items: odd.Items},
		`variable "a" is in nonexistent namespace "x"`: {Namespace: "x", Path: "a", Items: odd.Items},
	} {
		_, _, err := cp.PutVariable(v, nil)
		require.ErrorContains(t, err, fault)
	}
}

func TestVariablesAreBoundedTogether(t *testing.T) {
	path := filepath.Join(t.TempDir(), "server.db")
	cp := open(t, path)
	putVariable(t, cp, variable("a", "k", "v"))
	v := putVariable(t, cp, variable("b", "k", strings.Repeat("v", 1000)))
	require.NoError(t, cp.Close())
	cp = open(t, path)
	sizes := *cp.data.variableSizes
	require.Equal(t, 2, sizes.count)
	require.InDelta(t, 1000, sizes.bytes, 200)
	fill := func(count, bytes int) {
		require.NoError(t, cp.write(func(*tx) error {
			cp.data.variableSizes.count, cp.data.variableSizes.bytes = count, bytes
			return nil
		}))
	}
	fill(maxVariables, sizes.bytes)
	_, _, err := cp.PutVariable(variable("c", "k", "v"), nil)
	require.ErrorContains(t, err, "there are 100000 variables, as many as there can be: purge some")
	putVariable(t, cp, variable("b", "k", "another"))
	fill(2, maxVariablesBytes)
	_, _, err = cp.PutVariable(variable("c", "k", "v"), nil)
	require.ErrorContains(t, err, "purge some")
	_, _, err = cp.PutVariable(variable("b", "k", strings.Repeat("v", 1000)), nil)
	require.ErrorContains(t, err, "purge some")
	putVariable(t, cp, variable("b", "k", "other"))
	_, err = cp.DeleteVariable(v.Namespace, v.Path, nil)
	require.NoError(t, err)
	putVariable(t, cp, variable("c", "k", "v"))
}

// What is in the files of the control plane, and in a snapshot of it, is sealed.
func TestNoFileHasASecretInTheClear(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "server.db")
	cp := open(t, path)
	putVariable(t, cp, variable("app/db", "name-"+secret, secret))
	putVariable(t, cp, variable("app/db", "k", "2"+secret))
	_, _, err := cp.PutVariable(variable("app/db", "k", "3"+secret), new(uint64))
	require.NoError(t, err)
	_, err = cp.RotateRootKey(true)
	require.NoError(t, err)
	var snapshot bytes.Buffer
	require.NoError(t, cp.SaveSnapshot(&snapshot))
	var state bytes.Buffer
	_, err = snapshotfile.Read(&snapshot, &state)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "snapshot"), state.Bytes(), 0o600))
	require.NoError(t, cp.Close())
	require.FileExists(t, path+".last-good")
	files := 0
	require.NoError(t, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		content, err := os.ReadFile(name)
		require.NoError(t, err)
		require.False(t, holds(content, secret), "%s has a secret", name)
		info, err := d.Info()
		require.NoError(t, err)
		require.Equal(t, fs.FileMode(0o600), info.Mode().Perm(), name)
		return nil
	}))
	require.Equal(t, 5, files, "the file, its copy, the snapshot and two keys")
	info, err := os.Stat(filepath.Join(dir, "keyring"))
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o700), info.Mode().Perm())
}

// A row of another variable, put in the place of one that somebody may read, is not opened.
func TestASealedVariableIsBoundToItsPlace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "server.db")
	cp := open(t, path)
	putVariable(t, cp, variable("mine", "k", "v"))
	putVariable(t, cp, variable("theirs", "k", secret))
	other := *cp.data.variables[variableKey{"default", "theirs"}]
	cp.spoil(t, bucketVariables, "default\x00mine", func(r stored) { r["Sealed"] = other.Sealed })
	require.NoError(t, cp.Close())
	cp = open(t, path)
	_, err := cp.Variable("default", "mine")
	require.ErrorContains(t, err, `variable "mine": it is not what was sealed with its key: it was changed, or damaged`)
	require.Equal(t, secret, itemsOf(t, cp, "theirs")["k"])
}

// Who writes while the root key is rotated has each variable as it was written last.
func TestVariablesAreWrittenAndReadWhileKeysAreRotated(t *testing.T) {
	cp := open(t, filepath.Join(t.TempDir(), "server.db"))
	const writers, times = 4, 30
	var writing, rotating sync.WaitGroup
	stop := make(chan struct{})
	rotating.Go(func() {
		for {
			if _, err := cp.RotateRootKey(true); err != nil && !strings.Contains(err.Error(), "as many as there can be") {
				t.Error(err)
			}
			for _, k := range cp.RootKeys() {
				if k.State == nomad.RootKeyStateInactive {
					if err := cp.DeleteRootKey(k.KeyID, false); err != nil {
						t.Error(err) // something is sealed with it still
					}
				}
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	for w := range writers {
		path := fmt.Sprint("w", w)
		writing.Go(func() {
			var last uint64
			for n := range times {
				put, conflict, err := cp.PutVariable(variable(path, "n", fmt.Sprint(n)), &last)
				if err != nil || conflict != nil {
					t.Error(err, conflict)
					return
				}
				last = put.ModifyIndex
				read, err := cp.Variable("default", path)
				if err != nil || read.Items["n"] != fmt.Sprint(n) || read.ModifyIndex != last {
					t.Error(n, read, err)
					return
				}
			}
		})
	}
	writing.Wait()
	close(stop)
	rotating.Wait()
}

// holds reports whether a file has a text, as it is or in base64.
func holds(content []byte, text string) bool {
	for i := range 3 { // where in a group of three bytes it begins
		code := base64.StdEncoding.EncodeToString([]byte(strings.Repeat(" ", i) + text))
		if bytes.Contains(content, []byte(code[4:len(code)-4])) {
			return true
		}
	}
	return bytes.Contains(content, []byte(text))
}
