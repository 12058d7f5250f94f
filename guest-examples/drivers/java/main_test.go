package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/sdk/go/driver"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest"
	"github.com/wasmnode/wasmnode/sdk/go/drivertest/guestbuild"
	"github.com/wasmnode/wasmnode/sdk/go/process"
)

// both runs a test natively and against the compiled plugin, with a Java that is made
// for the test.
func both(t *testing.T, release string, test func(t *testing.T, node *drivertest.Node, home string)) {
	home := t.TempDir()
	if release != "" {
		require.NoError(t, os.WriteFile(filepath.Join(home, "release"), []byte(release), 0o600))
	}
	run := func(t *testing.T, node *drivertest.Node) {
		require.NoError(t, node.Configure(`{"home": "`+home+`"}`))
		test(t, node, home)
	}
	t.Run("native", func(t *testing.T) {
		run(t, drivertest.New(t, func() driver.Driver { return &java{} }))
	})
	t.Run("compiled", func(t *testing.T) {
		run(t, drivertest.NewCompiled(t, guestbuild.Plugin(t, "guest-examples/drivers/java"), nil, home))
	})
}

const release = `IMPLEMENTOR="Debian"
JAVA_RUNTIME_VERSION="17.0.15+6-Debian-1deb12u1"
JAVA_VERSION="17.0.15"
`

func TestTheJavaVersionIsReadFromTheReleaseFile(t *testing.T) {
	both(t, release, func(t *testing.T, node *drivertest.Node, _ string) {
		f, err := node.Fingerprint()
		require.NoError(t, err)
		require.Equal(t, driver.Healthy, f.Health)
		for name, want := range map[string]string{
			"driver.java.version": "17.0.15",
			"driver.java.runtime": "17.0.15+6-Debian-1deb12u1",
			"driver.java.vendor":  "Debian",
		} {
			require.True(t, f.Attributes[name].EqualVT(driver.String(want)), "%s: %v", name, f.Attributes[name])
		}

		node.LackFullIsolation("no namespaces")
		f, err = node.Fingerprint()
		require.NoError(t, err)
		require.Equal(t, driver.Unhealthy, f.Health)
		require.Equal(t, "no full isolation: no namespaces", f.Description)
	})
}

func TestWithoutJavaTheDriverIsUndetected(t *testing.T) {
	both(t, "", func(t *testing.T, node *drivertest.Node, home string) {
		f, err := node.Fingerprint()
		require.NoError(t, err)
		require.Equal(t, driver.Undetected, f.Health)
		require.Equal(t, "no Java in "+home+", or it is not granted", f.Description)
	})
}

func TestATaskIsAnIsolatedJava(t *testing.T) {
	for config, want := range map[string][]string{
		`{"jar_path": "local/app.jar", "jvm_options": ["-Xmx64m"], "args": ["-p", "80"]}`: {"-Xmx64m", "-jar", "local/app.jar", "-p", "80"},
		`{"class": "Hello", "class_path": "local:local/lib/*", "args": ["world"]}`:        {"-cp", "local:local/lib/*", "Hello", "world"},
		`{"class": "Hello"}`: {"Hello"},
	} {
		t.Run(config, func(t *testing.T) {
			both(t, release, func(t *testing.T, node *drivertest.Node, home string) {
				task := node.Task(config)
				handle, _, err := node.StartTask(task)
				require.NoError(t, err)
				require.Equal(t, task.Id, handle.WorkloadId)
				require.True(t, (&process.Command{
					Command: home + "/bin/java", Args: want, Env: task.Env, User: "nobody", Isolation: process.IsolationFull,
				}).EqualVT(node.Processes()[0]), "%v", node.Processes()[0])
			})
		})
	}
}

func TestAConfigNamesAClassOrAnArchive(t *testing.T) {
	node := drivertest.New(t, func() driver.Driver { return &java{} })
	for _, config := range []string{
		`{}`,
		`{"class": "Hello", "jar_path": "app.jar"}`,
		`{"class": "Hello", "heap": "1g"}`,
		`{"class": "Hello", "work_dir": "local"}`,
	} {
		_, err := node.TryTask(config)
		require.Error(t, err, config)
	}
}
