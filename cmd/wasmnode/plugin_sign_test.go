package main

import (
	"bytes"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/wasmnode/wasmnode/internal/enginetest"
	"github.com/wasmnode/wasmnode/internal/pluginregistry"
	"github.com/wasmnode/wasmnode/internal/pluginregistry/registrytest"
	"github.com/wasmnode/wasmnode/internal/pluginsign"
	"github.com/wasmnode/wasmnode/managers/catalog"
)

// keys makes key pairs in the workshop, and returns what people see of their public keys.
func (w workshop) keys(t *testing.T, names ...string) (shown []string) {
	t.Helper()
	t.Setenv(envKeyPassword, "secret")
	for _, name := range names {
		r := w.run(t, "", "plugin", "keygen", "-o", name)
		require.Zero(t, r.code, r.stderr)
		public, err := pluginsign.ReadPublicKey(filepath.Join(w.dir, name+".pub"))
		require.NoError(t, err)
		require.Contains(t, r.stdout, "ID          = "+public.ID+"\n")
		shown = append(shown, name+".pub ("+public.ID[:12]+")")
	}
	return shown
}

// does runs a command that has to succeed, and returns what it printed.
func (w workshop) does(t *testing.T, args ...string) string {
	t.Helper()
	r := w.run(t, "", args...)
	require.Zero(t, r.code, r.stderr)
	return r.stdout
}

func TestASignatureIsMadeAndVerified(t *testing.T) {
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	w, registry := newWorkshop(t, "mock", "raw_exec"), registrytest.Start(t)
	shown := w.keys(t, "mine", "theirs")
	info, err := os.Stat(filepath.Join(w.dir, "mine.key"))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode())
	wants(t, w.run(t, "", "plugin", "keygen", "-o", "mine"), 1, `mine\.key is there: name others with -o, or remove it if nothing was signed with it`)

	assert.Contains(t, w.does(t, "plugin", "sign", "-key", "mine.key", "mock.wasm"), "Signature = mock.wasm.sig\n")
	first := read(t, filepath.Join(w.dir, "mock.wasm.sig"))
	w.does(t, "plugin", "sign", "-key", "mine.key", "mock.wasm")
	assert.Equal(t, first, read(t, filepath.Join(w.dir, "mock.wasm.sig")), "the same file is the same signature")
	verify := func(key, what string) result {
		return w.run(t, "", "plugin", "verify", "-plain-http", "-key", key, what)
	}
	empty := t.TempDir()
	wants(t, w.run(t, "", "plugin", "verify", "-key", "mine.pub", empty), 1, `there is no plugin in `+empty)
	wants(t, verify("mine.pub", empty), 1, `-plain-http is for a registry, and .* is a directory`)
	assert.Equal(t, "mock.wasm is signed with "+shown[0]+"\n", verify("mine.pub", "mock.wasm").stdout)
	assert.Equal(t, "mock.wasm is signed with "+shown[0]+"\n", w.does(t, "plugin", "verify", "-key", "theirs.pub", "-key", "mine.pub", "mock.wasm"))

	ref := registry.Reference("drivers/mock", "1")
	digest := strings.TrimSpace(w.does(t, "plugin", "push", "-plain-http", "mock.wasm", ref))
	wants(t, verify("mine.pub", ref), 1, digest+`: it is not signed; trusted: mine\.pub \(.*\)`)
	for _, key := range []string{"theirs.key", "mine.key", "mine.key"} {
		assert.Contains(t, w.does(t, "plugin", "sign", "-plain-http", "-key", key, ref), "Signed    = "+digest+"\n")
	}
	for i, key := range []string{"mine.pub", "theirs.pub"} {
		assert.Equal(t, digest+" is signed with "+shown[i]+"\n", verify(key, ref).stdout)
	}

	// What is wrong with a signature, or a key.
	sig := filepath.Join(w.dir, "mock.wasm.sig")
	good := read(t, sig)
	write(t, sig, "text!")
	wants(t, verify("mine.pub", "mock.wasm"), 1, `mock\.wasm: its signature: it is neither a bundle nor a signature in base64`)
	write(t, sig, base64.StdEncoding.EncodeToString([]byte("text")))
	wants(t, verify("mine.pub", "mock.wasm"), 1, `mock\.wasm: it is not signed with a trusted key, or the signature is damaged or that of another file; trusted: mine\.pub \(.*\)`)
	write(t, sig, good)
	write(t, filepath.Join(w.dir, "raw_exec.wasm.sig"), good)
	wants(t, verify("mine.pub", "raw_exec.wasm"), 1, `raw_exec\.wasm: it is the signature of another file: that has the SHA-256 "[0-9a-f]{64}", this one has "[0-9a-f]{64}"`)
	require.NoError(t, os.Remove(filepath.Join(w.dir, "raw_exec.wasm.sig")))
	wants(t, verify("mine.pub", "raw_exec.wasm"), 1, `raw_exec\.wasm: it is not signed; trusted: mine\.pub .*`)
	wants(t, verify("theirs.pub", "mock.wasm"), 1, `mock\.wasm: it is signed with the key [0-9a-f]{12}, which is not trusted; trusted: theirs\.pub .*`)
	wants(t, verify("none.pub", "mock.wasm"), 1, `open none\.pub: no such file or directory`)
	wants(t, verify("mock.wasm", "mock.wasm"), 1, `mock\.wasm: it has \d+ bytes, the limit is 65536`)
	wants(t, verify("mine.key", "mock.wasm"), 1, `mine\.key: "ENCRYPTED SIGSTORE PRIVATE KEY" is not a public key`)
	wants(t, w.run(t, "", "plugin", "verify", "mock.wasm"), 1, `whose signature\? Name the public key with -key`)
	wants(t, w.run(t, "", "plugin", "sign", "mock.wasm"), 1, `with which key\? Name the private key with -key; wasmnode plugin keygen makes one`)
	wants(t, w.run(t, "", "plugin", "sign", "-key", "mine.pub", "mock.wasm"), 1, `mine\.pub: this is the public key: .*`)
	wants(t, w.run(t, "", "plugin", "sign", "-key", "mine.key", write(t, filepath.Join(w.dir, "text.wasm"), "text")), 1, `.*/text\.wasm: scan: .*`)
	t.Setenv(envKeyPassword, "other")
	wants(t, w.run(t, "", "plugin", "sign", "-key", "mine.key", "mock.wasm"), 1, `mine\.key: the password is another, or the file is damaged`)
	require.NoError(t, os.Unsetenv(envKeyPassword))
	wants(t, w.run(t, "", "plugin", "sign", "-key", "mine.key", "mock.wasm"), 1, `mine\.key: the key has a password, and nobody is here to be asked: set WASMNODE_KEY_PASSWORD`)

	// Only what was signed comes out of a registry.
	wants(t, w.run(t, "", "plugin", "pull", "-plain-http", "-key", "none.pub", "-o", "out.wasm", ref), 1, `open none\.pub: .*`)
	assert.Contains(t, w.does(t, "plugin", "pull", "-plain-http", "-o", "out.wasm", ref), "Signed by = somebody, not verified: name the public key with -key\n")
	assert.Contains(t, w.does(t, "plugin", "pull", "-plain-http", "-key", "mine.pub", "-o", "out.wasm", ref), "Signed by = "+shown[0]+"\n")
	assert.Equal(t, "out.wasm is signed with "+shown[1]+"\n", verify("theirs.pub", "out.wasm").stdout, "all signatures are kept")
	plain := registry.Reference("drivers/raw", "1")
	w.does(t, "plugin", "push", "-plain-http", "raw_exec.wasm", plain)
	wants(t, w.run(t, "", "plugin", "pull", "-plain-http", "-key", "mine.pub", "-o", "out.wasm", plain), 1, `oci://.*: it is not signed; trusted: .*`)
	assert.Equal(t, read(t, filepath.Join(w.dir, "mock.wasm")), read(t, filepath.Join(w.dir, "out.wasm")), "nothing was written")
	assert.Contains(t, w.does(t, "plugin", "pull", "-plain-http", "-o", "out.wasm", plain), "Signed by = nobody\n")
	assert.NoFileExists(t, filepath.Join(w.dir, "out.wasm.sig"), "that of the file before")
}

// TestDebiansRegistryKeepsSignatures installs by a key out of a registry that is none of ours, and
// that asks who does.
func TestDebiansRegistryKeepsSignatures(t *testing.T) {
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	address := enginetest.Registry(t)
	t.Setenv(pluginregistry.EnvUser, enginetest.User)
	t.Setenv(pluginregistry.EnvPassword, enginetest.Password)
	w, plugins := newWorkshop(t, "mock"), t.TempDir()
	shown := w.keys(t, "mine", "theirs")
	ref := "oci://" + address + "/drivers/mock:1"
	digest := strings.TrimSpace(w.does(t, "plugin", "push", "-plain-http", "mock.wasm", ref))
	install := func(key string) result {
		return w.run(t, "", "plugin", "install", "-plain-http", "-key", key, "-plugin-dir", plugins, ref)
	}
	wants(t, install("mine.pub"), 1, `oci://.*: it is not signed; trusted: mine\.pub \(.*\)`)
	w.does(t, "plugin", "sign", "-plain-http", "-key", "theirs.key", ref)
	wants(t, install("mine.pub"), 1, `oci://.*: it is signed with the key [0-9a-f]{12}, which is not trusted; trusted: mine\.pub \(.*\)`)
	entries, err := os.ReadDir(plugins)
	require.NoError(t, err)
	require.Empty(t, entries, "nothing of what was refused is there")
	w.does(t, "plugin", "sign", "-plain-http", "-key", "mine.key", ref)
	assert.Contains(t, w.does(t, "plugin", "install", "-plain-http", "-key", "mine.pub", "-plugin-dir", plugins, ref), "Signed by = "+shown[0]+"\n")
	assert.Equal(t, digest+" is signed with "+shown[1]+"\n", w.does(t, "plugin", "verify", "-plain-http", "-key", "theirs.pub", ref), "the first signature stays")
	require.Equal(t, read(t, filepath.Join(w.dir, "mock.wasm")), read(t, filepath.Join(plugins, "mock_driver.wasm")))
}

func TestAKeyWithAnEmptyPasswordIsWarnedOf(t *testing.T) {
	w := newWorkshop(t)
	t.Setenv(envKeyPassword, "")
	r := w.run(t, "", "plugin", "keygen", "-o", "open")
	assert.Zero(t, r.code)
	assert.Equal(t, "Warning: the password is empty: whoever gets open.key can sign with it\n", r.stderr)
}

// TestWhoIsAskedForAPasswordMayInterrupt has the terminal show again what is typed.
func TestWhoIsAskedForAPasswordMayInterrupt(t *testing.T) {
	w := newWorkshop(t, "mock")
	w.keys(t, "mine")
	require.NoError(t, os.Unsetenv(envKeyPassword))
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"sign":   {[]string{"sign", "-key", "mine.key", "mock.wasm"}, "mine.key: interrupted: nothing was changed"},
		"keygen": {[]string{"keygen", "-o", "new"}, "interrupted: nothing was changed"},
	} {
		t.Run(name, func(t *testing.T) {
			terminal := newTestTerminal(t)
			shows := func() bool {
				state, err := unix.IoctlGetTermios(int(terminal.theirs.Fd()), unix.TCGETS)
				require.NoError(t, err)
				return state.Lflag&unix.ECHO != 0
			}
			require.True(t, shows())
			cmd := exec.Command(binary, append([]string{"plugin"}, c.args...)...)
			cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = w.dir, terminal.theirs, terminal.theirs, terminal.theirs
			require.NoError(t, cmd.Start())
			defer time.AfterFunc(testTimeout, func() { _ = cmd.Process.Kill() }).Stop()
			terminal.await(t, "Password of the private key: ")
			require.Eventually(t, func() bool { return !shows() }, testTimeout, tick)
			require.NoError(t, cmd.Process.Signal(os.Interrupt))
			require.Error(t, cmd.Wait())
			assert.Equal(t, 1, cmd.ProcessState.ExitCode())
			terminal.await(t, "Error: "+c.want)
			assert.True(t, shows())
		})
	}
	assert.NoFileExists(t, filepath.Join(w.dir, "new.key"))
}

// TestSigningInARegistryMayBeInterrupted has one that does not answer.
func TestSigningInARegistryMayBeInterrupted(t *testing.T) {
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	w := newWorkshop(t)
	w.keys(t, "mine")
	asked := make(chan struct{}, 1)
	registry := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
	}))
	t.Cleanup(registry.Close)
	cmd := exec.Command(binary, "plugin", "sign", "-plain-http", "-key", "mine.key", strings.Replace(registry.URL, "http:", "oci:", 1)+"/mock:1")
	var stderr bytes.Buffer
	cmd.Dir, cmd.Stderr = w.dir, &stderr
	require.NoError(t, cmd.Start())
	defer time.AfterFunc(testTimeout, func() { _ = cmd.Process.Kill() }).Stop()
	<-asked
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	require.Error(t, cmd.Wait())
	assert.Equal(t, "Error: interrupted: nothing was changed\n", stderr.String())
}

// TestANodeTakesWhatATrustedKeySigned goes from the key to the node: by file, by registry and
// by bundle.
func TestANodeTakesWhatATrustedKeySigned(t *testing.T) {
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	s, w, registry := newSite(t), newWorkshop(t, "mock", "raw_exec"), registrytest.Start(t)
	w.keys(t, "mine", "theirs")
	before := read(t, s.config)
	trust := func(keys ...string) string {
		for i, k := range keys {
			keys[i] = `"` + filepath.Join(w.dir, k) + `"`
		}
		return "require_signed = true\ntrusted_keys = [" + strings.Join(keys, ", ") + "]\n" + before
	}
	write(t, s.config, trust("none.pub"))
	wants(t, w.run(t, "", "agent", "-config", s.config), 1, `configuration: trusted_keys: open .*/none\.pub: no such file or directory`)
	write(t, s.config, trust("mine.pub"))
	s.drop(t, "raw_exec.wasm", driver(t, "raw_exec"))
	n := s.start(t)
	const unsigned = `it is not signed: there is no raw_exec.wasm.sig; trusted: `
	assert.Contains(t, n.awaitFile(t, "raw_exec.wasm", catalog.StateRejected).Reason, unsigned)
	assert.Contains(t, n.out(t, "plugin", "status"), "raw_exec.wasm: "+unsigned)
	assert.Contains(t, n.log.String(), unsigned)
	require.Eventually(t, func() bool {
		return strings.Contains(n.out(t, "node", "status", "-self", "-verbose"), "Plugin raw_exec.wasm not taken: "+unsigned)
	}, testTimeout, tick)

	// From a registry: what another has signed is not installed where the key is named, and not
	// taken where it is not.
	ref := registry.Reference("drivers/mock", "1")
	w.does(t, "plugin", "push", "-plain-http", "mock.wasm", ref)
	w.does(t, "plugin", "sign", "-plain-http", "-key", "theirs.key", ref)
	install := func(from string, more ...string) result {
		return w.run(t, "", append(append([]string{"plugin", "install", "-plain-http", "-plugin-dir", s.plugins}, more...), from)...)
	}
	there := filesOf(t, s.plugins)
	wants(t, install(ref, "-key", "mine.pub"), 1, `oci://.*: it is signed with the key [0-9a-f]{12}, which is not trusted; trusted: mine\.pub .*`)
	assert.Equal(t, there, filesOf(t, s.plugins))
	require.Zero(t, install(ref).code)
	assert.Contains(t, n.awaitFile(t, "mock_driver.wasm", catalog.StateRejected).Reason, "mock_driver.wasm.sig: it is signed with the key ")
	w.does(t, "plugin", "sign", "-plain-http", "-key", "mine.key", ref)
	r := install(ref, "-replace", "-key", "mine.pub")
	require.Zero(t, r.code, r.stderr)
	assert.Contains(t, r.stdout, "Signed by = mine.pub (")
	assert.Contains(t, n.awaitPlugin(t, "mock_driver", catalog.StateHealthy).SignedBy, "mine.pub (")
	assert.Contains(t, n.out(t, "plugin", "status"), "mock_driver.wasm: signed with "+filepath.Join(w.dir, "mine.pub"))

	// From a bundle.
	other := t.TempDir()
	require.NoError(t, os.Rename(filepath.Join(s.plugins, "raw_exec.wasm"), filepath.Join(w.dir, "raw_exec.wasm")))
	w.does(t, "plugin", "lock", s.plugins)
	assert.Regexp(t, `^mock_driver\.wasm: signed with mine\.pub \(.*\)\n1 plugin as the lock says\n$`, w.does(t, "plugin", "verify", "-key", "mine.pub", s.plugins))
	w.does(t, "plugin", "bundle", "-o", "all.tar", s.plugins)
	w.does(t, "plugin", "install", "-plugin-dir", other, "-key", "mine.pub", "all.tar")
	assert.Equal(t, filesOf(t, s.plugins), filesOf(t, other))
	require.NoError(t, os.Remove(filepath.Join(s.plugins, "mock_driver.wasm.sig")))
	r = w.run(t, "", "plugin", "verify", "-key", "mine.pub", s.plugins)
	assert.Equal(t, 1, r.code)
	assert.Regexp(t, `^mock_driver\.wasm: it is not signed; trusted: mine\.pub .*\n$`, r.stdout)
	w.does(t, "plugin", "bundle", "-o", "all.tar", s.plugins)
	there = filesOf(t, other)
	wants(t, w.run(t, "", "plugin", "install", "-plugin-dir", other, "-key", "mine.pub", "all.tar"), 1, `all\.tar: mock_driver\.wasm: it is not signed; trusted: .*`)
	assert.Equal(t, there, filesOf(t, other))

	// A key that cannot be read leaves those before in force; one that is trusted no more ends its
	// plugins.
	write(t, s.config, trust("none.pub"))
	assert.Contains(t, n.reload(t), "the configuration was not reloaded, the one before stays in force: configuration: trusted_keys: ")
	n.awaitPlugin(t, "mock_driver", catalog.StateHealthy)
	write(t, s.config, trust("theirs.pub"))
	n.reload(t)
	assert.Contains(t, n.awaitFile(t, "mock_driver.wasm", catalog.StateRejected).Reason, "it is not signed: there is no mock_driver.wasm.sig")
	require.Zero(t, install(ref, "-replace", "-key", "theirs.pub").code)
	n.awaitPlugin(t, "mock_driver", catalog.StateHealthy)
}
