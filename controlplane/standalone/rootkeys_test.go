package standalone

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/hashicorp/go-hclog"
	nomad "github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/internal/boltfile"
	"github.com/wasmnode/wasmnode/structs/errdefs"
)

// keysIn are the IDs of the root keys in a state.
func keysIn(cp *ControlPlane, state nomad.RootKeyState) (ids []string) {
	for _, k := range cp.RootKeys() {
		if k.State == state {
			ids = append(ids, k.KeyID)
		}
	}
	slices.Sort(ids)
	return ids
}

// sealedWith is the root key of a variable.
func (cp *ControlPlane) sealedWith(path string) string {
	return read(cp, func(t *tables) string { return t.variables[variableKey{"default", path}].Key })
}

func TestARootKeyIsMadeWithTheFirstVariable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "server.db")
	cp := open(t, path)
	require.Empty(t, cp.RootKeys())
	require.NoDirExists(t, keyringOf(path))
	putVariable(t, cp, variable("a", "k", "v"))
	putVariable(t, cp, variable("b", "k", "v"))
	require.Len(t, cp.RootKeys(), 1)
	k := cp.RootKeys()[0]
	require.Equal(t, nomad.RootKeyStateActive, k.State)
	require.Equal(t, nomad.EncryptionAlgorithmAES256GCM, k.Algorithm)
	require.NotZero(t, k.CreateTime)
	require.NotZero(t, k.CreateIndex)
	require.FileExists(t, keyFile(path, k.KeyID))
	require.NoError(t, cp.Close())
	cp = open(t, path)
	require.Equal(t, []*nomad.RootKeyMeta{k}, cp.RootKeys())
	require.Equal(t, "v", itemsOf(t, cp, "a")["k"])
}

func keyFile(path, id string) string { return filepath.Join(keyringOf(path), id+".key") }

func TestARotatedKeyIsForWhatIsWrittenNext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "server.db")
	cp := open(t, path)
	before := putVariable(t, cp, variable("a", "k", "v"))
	old := cp.sealedWith("a")

	key, err := cp.RotateRootKey(false)
	require.NoError(t, err)
	require.Equal(t, []string{key.KeyID}, keysIn(cp, nomad.RootKeyStateActive))
	require.Equal(t, []string{old}, keysIn(cp, nomad.RootKeyStateInactive))
	putVariable(t, cp, variable("b", "k", "v"))
	require.Equal(t, old, cp.sealedWith("a"))
	require.Equal(t, key.KeyID, cp.sealedWith("b"))
	require.ErrorContains(t, cp.DeleteRootKey(old, false), "root key in use, cannot delete")
	require.ErrorContains(t, cp.DeleteRootKey(key.KeyID, true), "active root key cannot be deleted - call rotate first")

	require.NoError(t, cp.file.Forget(), "a copy as it is now")
	at := cp.Index(TableVariables)
	full, err := cp.RotateRootKey(true)
	require.NoError(t, err)
	require.Len(t, keysIn(cp, nomad.RootKeyStateInactive), 2)
	require.Equal(t, full.KeyID, cp.sealedWith("a"))
	require.Equal(t, full.KeyID, cp.sealedWith("b"))
	require.Equal(t, at, cp.Index(TableVariables), "no variable has changed")
	read, err := cp.Variable("default", "a")
	require.NoError(t, err)
	require.Equal(t, before, read)

	require.NoError(t, cp.DeleteRootKey(old, false))
	require.EqualError(t, cp.DeleteRootKey(old, false), "root key not found", "again")
	later := filepath.Join(t.TempDir(), "server.db")
	require.NoError(t, os.CopyFS(filepath.Dir(later), os.DirFS(filepath.Dir(path))))
	require.NoError(t, os.Rename(boltfile.CopyPath(later), later))
	require.Equal(t, "v", itemsOf(t, open(t, later), "a")["k"], "the last good copy does not need it")
	require.EqualError(t, cp.DeleteRootKey("../server", true), "root key not found", "there is none of that name")
	require.NoFileExists(t, keyFile(path, old))
	require.FileExists(t, path)
	require.NoError(t, cp.Close())
	cp = open(t, path)
	require.Equal(t, "v", itemsOf(t, cp, "a")["k"])
	require.Len(t, cp.RootKeys(), 2)
}

// TestAKeyWhoseFileCouldNotBeRemovedIsRemovedNextTime has a directory in the file's place, which
// cannot be removed either.
func TestAKeyWhoseFileCouldNotBeRemovedIsRemovedNextTime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "server.db")
	cp := open(t, path)
	putVariable(t, cp, variable("a", "k", "v"))
	old := cp.sealedWith("a")
	_, err := cp.RotateRootKey(true)
	require.NoError(t, err)
	file, aside := keyFile(path, old), filepath.Join(t.TempDir(), "key")
	require.NoError(t, os.Rename(file, aside))
	require.NoError(t, os.MkdirAll(filepath.Join(file, "in the way"), 0o700))
	require.Error(t, cp.DeleteRootKey(old, false))
	require.Error(t, cp.DeleteRootKey(old, false), "again")
	require.Len(t, cp.RootKeys(), 1)
	require.NoError(t, os.RemoveAll(file))
	require.NoError(t, os.Rename(aside, file))
	require.NoError(t, cp.DeleteRootKey(old, false))
	require.NoFileExists(t, file)
	require.Equal(t, "v", itemsOf(t, cp, "a")["k"])
}

func TestThereAreOnlySoManyRootKeys(t *testing.T) {
	cp := open(t, "")
	for range maxRootKeys {
		_, err := cp.RotateRootKey(false)
		require.NoError(t, err)
	}
	_, err := cp.RotateRootKey(false)
	require.ErrorContains(t, err, `there are 100 root keys, as many as there can be: remove some with "operator root keyring remove"`)
	require.Len(t, cp.RootKeys(), maxRootKeys)
}

// A key file that cannot be read costs what is sealed with it, until it is back.
func TestAKeyThatIsLostIsToldOfAndNothingIsDestroyed(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(file string) error
		fault string
	}{
		"missing":   {os.Remove, "no such file or directory"},
		"empty":     {func(file string) error { return os.WriteFile(file, nil, 0o600) }, "it is damaged"},
		"truncated": {func(file string) error { return os.Truncate(file, 70) }, "it is damaged"},
		"flipped": {func(file string) error {
			content, err := os.ReadFile(file)
			i := bytes.Index(content, []byte(`"Key":"`)) + 10
			if content[i] != 'A' {
				content[i] = 'A'
			} else {
				content[i] = 'B'
			}
			return errors.Join(err, os.WriteFile(file, content, 0o600))
		}, "it is damaged"},
		"a directory": {func(file string) error { return errors.Join(os.Remove(file), os.Mkdir(file, 0o700)) }, "is a directory"},
		"another's": {func(file string) error {
			return os.WriteFile(file, []byte(`{"KeyID":"11111111-1111-1111-1111-111111111111","Algorithm":"aes256-gcm"}`), 0o600)
		}, `it is of the root key "11111111-1111-1111-1111-111111111111"`},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "server.db")
			cp := open(t, path)
			lost := putVariable(t, cp, variable("lost", "k", secret))
			key := cp.sealedWith("lost")
			_, err := cp.RotateRootKey(false)
			require.NoError(t, err)
			putVariable(t, cp, variable("kept", "k", "v"))
			require.NoError(t, cp.Close())
			good, err := os.ReadFile(keyFile(path, key))
			require.NoError(t, err)
			require.NoError(t, c.spoil(keyFile(path, key)))

			var log bytes.Buffer
			cp, err = Open(Options{Path: path, Logger: hclog.New(&hclog.LoggerOptions{Output: &log})})
			require.NoError(t, err, "the agent starts")
			require.Equal(t, 1, strings.Count(log.String(), "\n"), log.String())
			for _, part := range []string{"root key " + key, keyFile(path, key), c.fault, "1 variables are sealed with it", "put its file back and restart the agent"} {
				require.Contains(t, log.String(), part)
				require.Contains(t, cp.LostKeys()[0], part)
			}
			require.Len(t, variablesOf(cp), 2)
			require.Equal(t, "v", itemsOf(t, cp, "kept")["k"])
			_, err = cp.Variable("default", "lost")
			require.Equal(t, errdefs.FailedPrecondition, errdefs.ClassOf(err))
			require.ErrorContains(t, err, keyFile(path, key))
			_, conflict, err := cp.PutVariable(variable("lost", "k", "new"), new(uint64))
			require.NoError(t, err)
			require.Equal(t, lost.ModifyIndex, conflict.ModifyIndex)
			require.Empty(t, conflict.Items)
			_, err = cp.RotateRootKey(true)
			require.NoError(t, err)
			require.Contains(t, log.String(), "variables could not be opened, and stay sealed with an old root key: count=1")
			require.NoError(t, cp.Close())

			require.NoError(t, os.RemoveAll(keyFile(path, key)))
			require.NoError(t, os.WriteFile(keyFile(path, key), good, 0o600))
			cp = open(t, path)
			require.Empty(t, cp.LostKeys())
			require.Equal(t, lost.Items, itemsOf(t, cp, "lost"))
		})
	}
}

// With the key that is in use nothing is written, until somebody decides.
func TestNothingIsWrittenWithAnotherKeyThanTheOneThatIsLost(t *testing.T) {
	path := filepath.Join(t.TempDir(), "server.db")
	cp := open(t, path)
	putVariable(t, cp, variable("a", "k", "v"))
	require.NoError(t, cp.Close())
	require.NoError(t, os.RemoveAll(keyringOf(path)))
	cp = open(t, path)
	_, _, err := cp.PutVariable(variable("b", "k", "v"), nil)
	require.Equal(t, errdefs.FailedPrecondition, errdefs.ClassOf(err))
	require.ErrorContains(t, err, `operator root keyring rotate -now`)
	_, err = cp.RotateRootKey(false)
	require.NoError(t, err)
	putVariable(t, cp, variable("a", "k", "v"))
	require.Empty(t, cp.LostKeys(), "nothing is sealed with the lost one any more")
}

// A file that has no list of keys has the variables still.
func TestTheListOfRootKeysMayBeLost(t *testing.T) {
	path := filepath.Join(t.TempDir(), "server.db")
	cp := open(t, path)
	putVariable(t, cp, variable("a", "k", "v"))
	cp.spoil(t, bucketRootKeys, cp.sealedWith("a"), func(r stored) { r["KeyID"] = "other" })
	require.NoError(t, cp.Close())
	cp = open(t, path)
	require.Equal(t, 1, cp.Unreadable())
	require.Equal(t, "v", itemsOf(t, cp, "a")["k"])
	putVariable(t, cp, variable("b", "k", "v"))
	require.Len(t, cp.RootKeys(), 1)
	require.Equal(t, "v", itemsOf(t, cp, "a")["k"])
}

// TestARotationMayBeCutOffAnywhere has a program die at each point of one. What it leaves is
// read, and the next start goes on with what was begun.
func TestARotationMayBeCutOffAnywhere(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program")
	}
	program := filepath.Join(t.TempDir(), "rotate")
	out, err := exec.Command("go", "build", "-tags", "failpoint", "-o", program, "./testdata/rotate").CombinedOutput()
	require.NoError(t, err, "%s", out)
	rotate := func(path string, env ...string) (died bool) {
		cmd := exec.Command(program, "rotate", path)
		cmd.Env = append(os.Environ(), env...)
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL {
			return true
		}
		require.NoError(t, err, "%s", out)
		return false
	}
	prepare := func() (path, old string) {
		path = filepath.Join(t.TempDir(), "server.db")
		cp := open(t, path)
		for i := range 3 * resealedAtOnce {
			putVariable(t, cp, variable(fmt.Sprint("v", i), "k", fmt.Sprint(i)))
		}
		old = cp.sealedWith("v0")
		require.NoError(t, cp.Close())
		return path, old
	}
	log := filepath.Join(t.TempDir(), "points")
	path, _ := prepare()
	rotate(path, "WASMNODE_FAILPOINT_LOG="+log)
	passed, err := os.ReadFile(log)
	require.NoError(t, err)
	times := map[string]int{}
	for point := range strings.Lines(string(passed)) {
		point = strings.TrimSpace(point)
		times[point]++
		kill := fmt.Sprintf("%s:%d", point, times[point])
		t.Run(kill, func(t *testing.T) {
			path, old := prepare()
			if !rotate(path, "WASMNODE_FAILPOINT="+kill) { // how many copies are made depends on time
				require.Regexp(t, `\.last-good\.|/durable\.made:`, kill)
			}
			cp := open(t, path)
			require.Zero(t, cp.Unreadable())
			require.Empty(t, cp.LostKeys())
			require.Empty(t, keysIn(cp, nomad.RootKeyStateRekeying))
			active := keysIn(cp, nomad.RootKeyStateActive)
			require.Len(t, active, 1)
			for i := range 3 * resealedAtOnce {
				require.Equal(t, fmt.Sprint(i), itemsOf(t, cp, fmt.Sprint("v", i))["k"])
				require.Equal(t, active[0], cp.sealedWith(fmt.Sprint("v", i)), "begun (%t) is finished", active[0] != old)
			}
			putVariable(t, cp, variable("v0", "k", "0"))
		})
	}
	for _, point := range []string{"rotate/rootkey.write", "rotate/rootkey.renamed", "rotate/rootkey.added"} {
		require.Equal(t, 1, times[point], point)
	}
	require.Equal(t, 3, times["rotate/rootkey.resealed"])
	require.GreaterOrEqual(t, times["rotate/server.db.commit"], 5)
}

// FuzzAStoredVariable has a row that was changed by whoever can write the file: it is left out,
// or cannot be opened, or is what was written.
func FuzzAStoredVariable(f *testing.F) {
	cp, err := Open(Options{})
	require.NoError(f, err)
	f.Cleanup(func() { require.NoError(f, cp.Close()) })
	_, _, err = cp.PutVariable(variable("a", "k", secret), nil)
	require.NoError(f, err)
	good := cp.data.variables[variableKey{"default", "a"}]
	op, err := encodeRow(bucketVariables, good.key().stored(), good)
	require.NoError(f, err)
	f.Add(op.Key, op.Value)
	f.Add("default\x00b", bytes.Replace(op.Value, []byte(`"Path":"a"`), []byte(`"Path":"b"`), 1))
	f.Add(op.Key, bytes.Replace(op.Value, []byte(good.Key), []byte("../../server"), 1))
	f.Add(op.Key, []byte(`{"Namespace":"default","Path":"a","Key":"`+good.Key+`","Sealed":"AAAA"}`))
	f.Fuzz(func(t *testing.T, key string, value []byte) {
		row := new(variableRow)
		if json.Unmarshal(value, row) != nil {
			return
		}
		loading := &ControlPlane{ring: cp.ring, data: newTables()}
		if loading.loadVariable(key, row) != nil {
			return
		}
		v, err := loading.unsealed(row)
		if err != nil {
			require.NotContains(t, err.Error(), secret)
			return
		}
		require.Equal(t, "a", v.Path)
		require.Equal(t, nomad.VariableItems{"k": secret}, v.Items)
	})
}
