package volumes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	nomad "github.com/hashicorp/nomad/api"

	"github.com/wasmnode/wasmnode/internal/durable"
	"github.com/wasmnode/wasmnode/structs"
)

// mkdirPlugin is the name of the built-in plugin, and mkdirVersion the version that it has in
// Nomad 2.0.
const (
	mkdirPlugin  = "mkdir"
	mkdirVersion = "0.0.1"
)

// mkdir makes directories, named by the volumes' IDs.
type mkdir struct{ dir string }

func (mkdir) fingerprint(context.Context) (string, error) { return mkdirVersion, nil }

// create makes the directory under another name first: what has the volume's name is all that
// was asked for, whenever the agent was killed. A directory that is there stays as it is. One that
// was there and is gone is not made again by itself: it may be on a disk that is not mounted, and
// what begins anew without its data does harm.
func (p mkdir) create(_ context.Context, v *nomad.HostVolume) (made structs.MadeVolume, err error) {
	made.Path = filepath.Join(p.dir, v.ID)
	how, err := mkdirParameters(v.Parameters)
	if err != nil {
		return made, err
	}
	if _, err := os.Lstat(made.Path); !errors.Is(err, fs.ErrNotExist) {
		return made, err
	}
	if v.HostPath != "" {
		return made, fmt.Errorf("%s was made and is gone: bring it back, or have it made anew with volume create -id", made.Path)
	}
	begun := filepath.Join(p.dir, "."+v.ID)
	if err := os.RemoveAll(begun); err != nil {
		return made, err
	}
	if err := os.Mkdir(begun, 0o700); err != nil {
		return made, err
	}
	err = os.Chown(begun, how.uid, how.gid)
	if err == nil {
		err = os.Chmod(begun, how.mode)
	}
	if err == nil {
		err = os.Rename(begun, made.Path)
	}
	if err != nil {
		return made, errors.Join(err, os.Remove(begun))
	}
	return made, durable.SyncDir(p.dir)
}

func (p mkdir) remove(_ context.Context, v *nomad.HostVolume) error {
	for _, name := range []string{"." + v.ID, v.ID} {
		if err := os.RemoveAll(filepath.Join(p.dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// directory is how a directory is to be; IDs of -1 leave its owner or group as they are.
type directory struct {
	uid, gid int
	mode     os.FileMode
}

// mkdirParameters reads the parameters of a volume, with Nomad's defaults.
func mkdirParameters(parameters map[string]string) (directory, error) {
	how := directory{uid: -1, gid: -1, mode: 0o700}
	for _, name := range sorted(parameters) {
		value := parameters[name]
		number := func(base, most int) (int, error) {
			n, err := strconv.ParseUint(value, base, 32)
			if err != nil || n > uint64(most) {
				return 0, fmt.Errorf("invalid value for %q: %q is no number from 0 to %s", name, value, strconv.FormatInt(int64(most), base))
			}
			return int(n), nil
		}
		var err error
		switch name {
		case "mode":
			var bits int
			bits, err = number(8, 0o777)
			how.mode = os.FileMode(bits)
		case "uid":
			how.uid, err = number(10, maxID)
		case "gid":
			how.gid, err = number(10, maxID)
		default:
			err = fmt.Errorf("unknown mkdir parameter: %q: it has mode, uid and gid", name)
		}
		if err != nil {
			return how, err
		}
	}
	return how, nil
}

// maxID is the highest ID of a user or group that can be asked for.
const maxID = 1<<31 - 1
