package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// volumeJob is a batch job whose task mounts the node's volume at /data.
func volumeJob(t *testing.T, id, driver, config, volume, mount string) string {
	return write(t, filepath.Join(t.TempDir(), id+".nomad.hcl"), fmt.Sprintf(`job %q {
  type = "batch"
  meta {
    place = "data"
  }
  group "g" {
    restart {
      attempts = 0
    }
    reschedule {
      attempts  = 0
      unlimited = false
    }
    volume "d" {
      type   = "host"
      %s
    }
    task "t" {
      driver = %q
      config {
        %s
      }
      volume_mount {
        volume      = "d"
        destination = "/${NOMAD_META_place}"
        %s
      }
    }
  }
}
`, id, volume, driver, config, mount))
}

// TestTasksMountTheNodesVolumes: what one task writes, others read, and it stays when its job
// is gone.
func TestTasksMountTheNodesVolumes(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can isolate processes")
	}
	s := newSite(t, "exec", "raw_exec", "wasi")
	data, fixed := filepath.Join(t.TempDir(), "data"), t.TempDir()
	require.NoError(t, os.Mkdir(data, 0o777))
	require.NoError(t, os.Chmod(data, 0o777))
	require.NoError(t, os.Chmod(write(t, filepath.Join(fixed, "file"), "fixed\n"), 0o644))
	volumes := fmt.Sprintf(`client {
  host_volume "data" {
    path = %q
  }
  host_volume "fixed" {
    path      = %q
    read_only = true
  }`, data, fixed)
	write(t, s.config, strings.Replace(read(t, s.config), "client {", volumes, 1))
	s.grant(t, `plugin "raw_exec" { grant { process { commands = ["*"] } } }
plugin "exec" {
  grant {
    process {
      commands  = ["/bin/*", "/usr/bin/*"]
      users     = ["nobody"]
      isolation = "full"
    }
  }
}`)
	n := s.start(t)
	assert.Regexp(t, `\nHost Volumes += data,fixed\n`, n.out(t, "node", "status", "-self"))
	run := func(id, driver, config, volume, mount, status string) string {
		n.out(t, "job", "run", "-detach", volumeJob(t, id, driver, config, volume, mount))
		return n.await(t, id, status).ID
	}
	shell := func(script string) string { return fmt.Sprintf("command = \"/bin/sh\"\nargs = [\"-c\", %q]", script) }

	run("writes", "exec", shell("echo kept > /data/file"), `source = "data"`, "", "complete")
	require.Equal(t, "kept\n", read(t, filepath.Join(data, "file")))
	linked := run("links", "raw_exec", shell("cat data/file"), `source = "data"`, "", "complete")
	assert.Equal(t, "kept\n", n.out(t, "alloc", "logs", linked))
	counted := run("counts", "wasi", fmt.Sprintf("module = %q\nargs = [\"/data/file\"]", s.program(t, "wordcount")), `source = "data"`, "read_only = true", "complete")
	assert.Contains(t, n.out(t, "alloc", "logs", counted), "kept")
	assert.Regexp(t, `\nHost Volumes:\nID +Read Only\nd +true\n\nTask Events:`, n.out(t, "alloc", "status", counted))
	assert.Regexp(t, `\nHost Volumes:\nID +Read Only\nd +false\n`, n.out(t, "alloc", "status", linked))

	refused := run("fixed", "exec", shell("cat /data/file; echo more > /data/file"), "source = \"fixed\"\nread_only = true", "", "failed")
	assert.Equal(t, "fixed\n", n.out(t, "alloc", "logs", refused))
	assert.Contains(t, n.out(t, "alloc", "logs", "-stderr", refused), "Read-only file system")
	assert.Equal(t, "fixed\n", read(t, filepath.Join(fixed, "file")))
	unable := run("unable", "raw_exec", shell("true"), "source = \"fixed\"\nread_only = true", "", "failed")
	assert.Contains(t, n.out(t, "alloc", "status", unable), `volumes: task driver "raw_exec" for "t" cannot keep volume "d" read-only`)

	n.out(t, "job", "run", "-detach", volumeJob(t, "waits", "exec", shell("true"), `source = "fixed"`, ""))
	assert.Contains(t, n.out(t, "job", "status", "waits"), "missing compatible host volumes")
	n.out(t, "job", "stop", "-purge", "links")
	n.out(t, "system", "gc")
	assert.NoDirExists(t, filepath.Join(s.data, "alloc", linked))
	assert.Equal(t, "kept\n", read(t, filepath.Join(data, "file")), "the volume is the node's")

	// A node without its volume's directory says so, rather than running tasks without data.
	n.signal(t, syscall.SIGTERM)
	require.NoError(t, os.Rename(data, data+"-away"))
	gone := command(t, "", "agent", "-config", s.config)
	assert.NotZero(t, gone.code)
	assert.Contains(t, gone.stderr, `client.host_volume "data": path: stat `+data+": no such file or directory")
}
