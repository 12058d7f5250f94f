package pluginsign_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/internal/pluginsign"
)

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

func write(t testing.TB, dir, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return path
}

// pair is a new key pair, of which the public key is known by a name.
func pair(t testing.TB, name string) (*pluginsign.PrivateKey, pluginsign.PublicKey) {
	t.Helper()
	private, err := pluginsign.NewKey()
	require.NoError(t, err)
	public, err := private.Public(name)
	require.NoError(t, err)
	return private, public
}

func secret(text string) func() ([]byte, error) {
	return func() ([]byte, error) { return []byte(text), nil }
}

func TestAKeyIsKeptEncryptedAndReadAgain(t *testing.T) {
	dir := t.TempDir()
	private, public := pair(t, "")
	text, err := private.PEM([]byte("secret"))
	require.NoError(t, err)
	require.Contains(t, string(text), "-----BEGIN ENCRYPTED SIGSTORE PRIVATE KEY-----")
	file := write(t, dir, "a.key", text)
	again, err := pluginsign.ReadPrivateKey(file, secret("secret"))
	require.NoError(t, err)
	same, err := again.Public("")
	require.NoError(t, err)
	require.Equal(t, public.ID, same.ID)

	text, err = public.PEM()
	require.NoError(t, err)
	shared, err := pluginsign.ReadPublicKey(write(t, dir, "a.pub", text))
	require.NoError(t, err)
	require.Equal(t, public.ID, shared.ID)
	require.Equal(t, dir+"/a.pub ("+public.ID[:12]+")", shared.String())
}

func TestAKeyThatCannotBeReadSaysWhy(t *testing.T) {
	dir := t.TempDir()
	private, public := pair(t, "")
	locked, err := private.PEM([]byte("secret"))
	require.NoError(t, err)
	open, err := public.PEM()
	require.NoError(t, err)
	block := func(kind string) []byte {
		return []byte("-----BEGIN " + kind + "-----\nAAAA\n-----END " + kind + "-----\n")
	}
	openssl := func(args ...string) []byte {
		out, err := exec.Command("openssl", args...).Output()
		require.NoError(t, err)
		return out
	}
	rsa := openssl("genpkey", "-quiet", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:1024")
	const otherKind = `a key of another kind: it has to be one of ECDSA on the curve P-256`
	for name, c := range map[string]struct {
		content         []byte
		private, public string
	}{
		"text":     {[]byte("text"), `this is no key: it has no PEM in it`, `this is no key: it has no PEM in it`},
		"private":  {locked, `the password is another, or the file is damaged`, `"ENCRYPTED SIGSTORE PRIVATE KEY" is not a public key`},
		"public":   {open, `this is the public key: sign with the private one, verify with this`, ""},
		"two":      {bytes.Repeat(open, 2), `something follows the key`, `something follows the key`},
		"cut":      {block("PRIVATE KEY"), `the private key is damaged: asn1: `, `"PRIVATE KEY" is not a public key`},
		"cut EC":   {block("EC PRIVATE KEY"), `the private key is damaged: `, `"EC PRIVATE KEY" is not a public key`},
		"cut half": {block("PUBLIC KEY"), `this is the public key`, `the public key is damaged: `},
		"RSA":      {rsa, otherKind, `"PRIVATE KEY" is not a public key`},
		"P-384":    {openssl("genpkey", "-quiet", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-384"), otherKind, `"PRIVATE KEY" is not a public key`},
		"other":    {block("CERTIFICATE"), `"CERTIFICATE" is not a private key`, `"CERTIFICATE" is not a public key`},
		"large":    {make([]byte, 64<<10+1), `it has 65537 bytes, the limit is 65536`, `it has 65537 bytes, the limit is 65536`},
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, dir, "key", c.content)
			_, err := pluginsign.ReadPrivateKey(path, secret("other"))
			require.ErrorContains(t, err, path+": "+c.private)
			_, err = pluginsign.ReadKeys([]string{path})
			if c.public == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, path+": "+c.public)
			}
		})
	}
	_, err = pluginsign.ReadPrivateKey(write(t, dir, "key", locked), func() ([]byte, error) { return nil, errors.New("nobody to ask") })
	require.EqualError(t, err, dir+"/key: nobody to ask")
	_, err = pluginsign.ReadPublicKey(dir)
	require.EqualError(t, err, dir+": not a regular file")
	require.NoError(t, syscall.Mkfifo(dir+"/pipe", 0o600))
	_, err = pluginsign.ReadPublicKey(dir + "/pipe")
	require.EqualError(t, err, dir+"/pipe: not a regular file", "and nobody waits for who writes to it")
	_, err = pluginsign.ReadPublicKey(dir + "/none")
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// TestASignatureSaysWhoSignedWhat goes through all that can be wrong with the signature of a
// file.
func TestASignatureSaysWhoSignedWhat(t *testing.T) {
	private, public := pair(t, "release.pub")
	other, stranger := pair(t, "other.pub")
	trusted := pluginsign.Keys{stranger, public}
	content := []byte("plugin")
	signed, err := private.SignFile(content)
	require.NoError(t, err)
	text, err := signed.Text()
	require.NoError(t, err)
	again, err := private.SignFile(content)
	require.NoError(t, err)
	require.Equal(t, signed, again, "the same file and key are the same signature")

	parsed, err := pluginsign.Parse(text)
	require.NoError(t, err)
	require.Equal(t, signed, parsed)
	by, err := trusted.Verify(parsed, digest(content))
	require.NoError(t, err)
	require.Equal(t, public, by)

	_, err = trusted.Verify(parsed, digest([]byte("other")))
	require.EqualError(t, err, fmt.Sprintf("it is the signature of another file: that has the SHA-256 %q, this one has %q", digest(content), digest([]byte("other"))))
	_, err = pluginsign.Keys{stranger}.Verify(parsed, digest(content))
	require.EqualError(t, err, fmt.Sprintf("it is signed with the key %s, which is not trusted; trusted: %s", public.ID[:12], stranger))
	_, err = pluginsign.Keys{}.Verify(parsed, digest(content))
	require.ErrorContains(t, err, "which is not trusted")
	damaged := &pluginsign.File{Signatures: []pluginsign.Signature{signed.Signatures[0]}}
	damaged.Signatures[0].Signature = bytes.Clone(damaged.Signatures[0].Signature)
	damaged.Signatures[0].Signature[10] ^= 1
	_, err = trusted.Verify(damaged, digest(content))
	require.EqualError(t, err, fmt.Sprintf("the signature is damaged: it says that it is made with %s, and does not verify", public))

	// A bare one does not say of what it is, nor by whom.
	bare, err := pluginsign.Parse([]byte(base64.StdEncoding.EncodeToString(signed.Signatures[0].Signature) + "\n"))
	require.NoError(t, err)
	by, err = trusted.Verify(bare, digest(content))
	require.NoError(t, err)
	require.Equal(t, public, by)
	const unknown = "it is not signed with a trusted key, or the signature is damaged or that of another file; trusted: "
	_, err = trusted.Verify(bare, digest([]byte("other")))
	require.EqualError(t, err, unknown+trusted.String())
	foreign, err := other.SignFile(content)
	require.NoError(t, err)
	bare.Signatures[0].Signature = foreign.Signatures[0].Signature
	_, err = pluginsign.Keys{public}.Verify(bare, digest(content))
	require.EqualError(t, err, unknown+public.String())
}

// manifest is one whose layer is a file.
func manifest(content []byte) []byte {
	return []byte(`{"schemaVersion": 2, "layers": [{"mediaType": "application/wasm", "digest": "sha256:` + digest(content) + `", "size": 6}]}`)
}

func TestASignedManifestVouchesForItsFile(t *testing.T) {
	private, public := pair(t, "release.pub")
	_, stranger := pair(t, "other.pub")
	content := []byte("plugin")
	sign := func(k *pluginsign.PrivateKey, m []byte) pluginsign.Signature {
		s, err := k.SignManifest("registry.example/drivers/mock", "sha256:"+digest(m))
		require.NoError(t, err)
		return s
	}
	signature := sign(private, manifest(content))
	require.JSONEq(t, `{"critical": {"identity": {"docker-reference": "registry.example/drivers/mock"},
		"image": {"docker-manifest-digest": "sha256:`+digest(manifest(content))+`"}, "type": "cosign container image signature"},
		"optional": {"key-sha256": "`+public.ID+`"}}`, string(signature.Payload))
	f := func(m []byte, s ...pluginsign.Signature) *pluginsign.File {
		text, err := (&pluginsign.File{Manifest: m, Signatures: s}).Text()
		require.NoError(t, err)
		f, err := pluginsign.Parse(text)
		require.NoError(t, err)
		return f
	}
	foreign, other := pair(t, "")
	trusted := pluginsign.Keys{public}
	for range 2 {
		by, err := trusted.Verify(f(manifest(content), sign(foreign, manifest(content)), signature), digest(content))
		require.NoError(t, err, "one of the signatures is enough")
		require.Equal(t, public, by)
	}
	damaged := signature
	damaged.Signature = bytes.Clone(signature.Signature)
	damaged.Signature[10] ^= 1
	file := signature
	fileSignature, err := private.SignFile(manifest(content))
	require.NoError(t, err)
	file.Signature = fileSignature.Signatures[0].Signature
	list := []byte(`{"manifests": []}`)
	for name, c := range map[string]struct {
		file *pluginsign.File
		keys pluginsign.Keys
		want string
	}{
		"another file":       {f(manifest([]byte("other")), sign(private, manifest([]byte("other")))), trusted, `it is the signature of another file: that has the SHA-256 "` + digest([]byte("other"))},
		"another manifest":   {f(manifest(content), sign(private, list)), trusted, `it is the signature of another manifest, "sha256:` + digest(list) + `" of "registry.example/drivers/mock"`},
		"no plugin":          {f(list, sign(private, list)), trusted, `what is signed is not the manifest of one file`},
		"another key":        {f(manifest(content), sign(foreign, manifest(content))), trusted, "it is signed with the key " + other.ID[:12] + ", which is not trusted; trusted: " + public.String()},
		"no trusted key":     {f(manifest(content), signature), pluginsign.Keys{stranger}, "it is signed with the key " + public.ID[:12] + ", which is not trusted"},
		"damaged":            {f(manifest(content), damaged), trusted, "the signature is damaged: it says that it is made with " + public.String()},
		"of the file itself": {f(manifest(content), file), trusted, "the signature is damaged"},
		"another payload":    {f(manifest(content), pluginsign.OfManifest([]byte("{}"), signature.Signature)), trusted, "the signature is damaged: what it signs is not the digest of a manifest"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.keys.Verify(c.file, digest(content))
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), "\n")
		})
	}
}

func TestWhatIsNoSignatureIsRefused(t *testing.T) {
	bundle := func(material, message string) string {
		return `{"mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json", "verificationMaterial": ` + material + `, "messageSignature": ` + message + `}`
	}
	signed := func(manifest, signatures string) string {
		return `{"mediaType": "application/vnd.wasmnode.signed-manifest.v1+json", "manifest": ` + manifest + `, "signatures": ` + signatures + `}`
	}
	const key, sum = `{"publicKey": {"hint": "x"}}`, `{"algorithm": "SHA2_256", "digest": "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}`
	for text, want := range map[string]string{
		"":                      `it is neither a bundle nor a signature in base64`,
		"text!":                 `it is neither a bundle nor a signature in base64`,
		"{":                     `it is damaged: unexpected EOF`,
		"{}":                    `it is of type "", which is no signature that is known here`,
		`{"mediaType": "a/b"}`:  `it is of type "a/b", which is no signature that is known here`,
		`{"mediaType": "a"} {}`: `something follows its end`,
		bundle(key, `null`):     `it is a bundle with something else than the signature of a file`,
		bundle(`{"certificate": {}}`, `{"messageDigest": `+sum+`, "signature": "AAAA"}`): `it is signed with a certificate, not with a key pair`,
		bundle(key, `{"messageDigest": {"algorithm": "SHA2_512"}, "signature": "AAAA"}`): `it has no SHA-256 of the file that is signed`,
		bundle(key, `{"messageDigest": `+sum+`}`):                                        `it has no signature`,
		bundle(`[]`, `{}`):       `it is damaged: json: cannot unmarshal array`,
		signed(`""`, `[]`):       `it has no manifest`,
		signed(`"AAAA"`, `[]`):   `it has no signature`,
		signed(`"AAAA"`, `[{}]`): `it has an empty signature`,
		signed(`"AAAA"`, `[`+strings.Repeat(`{},`, 64)+`{}]`): `it has 65 signatures, the limit is 64`,
		signed(`7`, `[]`):                `it is damaged: json: cannot unmarshal number`,
		strings.Repeat("A", 1<<20) + "A": `it has more than 1048576 bytes`,
	} {
		_, err := pluginsign.Parse([]byte(text))
		require.ErrorContains(t, err, want, "%.80s", text)
	}
	_, err := pluginsign.ReadFile(filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// TestOpenSSLAgrees has another program sign what we verify and verify what we sign.
func TestOpenSSLAgrees(t *testing.T) {
	dir := t.TempDir()
	content := []byte("plugin")
	openssl := func(args ...string) string {
		cmd := exec.Command("openssl", args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		return string(out)
	}
	write(t, dir, "x.wasm", content)
	for _, form := range [][]string{{"genpkey", "-quiet", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", "k.pem"}, {"ec", "-in", "k.pem", "-out", "k.pem"}} {
		openssl(form...)
		openssl("pkey", "-in", "k.pem", "-pubout", "-out", "k.pub")
		private, err := pluginsign.ReadPrivateKey(filepath.Join(dir, "k.pem"), nil)
		require.NoError(t, err)
		keys, err := pluginsign.ReadKeys([]string{filepath.Join(dir, "k.pub")})
		require.NoError(t, err)

		openssl("dgst", "-sha256", "-sign", "k.pem", "-out", "theirs", "x.wasm")
		openssl("base64", "-A", "-in", "theirs", "-out", "x.wasm.sig")
		theirs, err := pluginsign.ReadFile(filepath.Join(dir, "x.wasm.sig"))
		require.NoError(t, err)
		_, err = keys.Verify(theirs, digest(content))
		require.NoError(t, err)

		ours, err := private.SignFile(content)
		require.NoError(t, err)
		write(t, dir, "ours", ours.Signatures[0].Signature)
		require.Equal(t, "Verified OK\n", openssl("dgst", "-sha256", "-verify", "k.pub", "-signature", "ours", "x.wasm"))
	}
}

// FuzzParse reads what somebody has put beside a plugin: it is refused in one line, or is
// written again as what was read, and a key verifies nothing of it that it has not signed.
func FuzzParse(f *testing.F) {
	private, err := pluginsign.NewKey()
	require.NoError(f, err)
	public, err := private.Public("k.pub")
	require.NoError(f, err)
	stranger, err := pluginsign.NewKey()
	require.NoError(f, err)
	content := []byte("plugin")
	signed, err := stranger.SignFile(content)
	require.NoError(f, err)
	text, err := signed.Text()
	require.NoError(f, err)
	s, err := stranger.SignManifest("r.example/x", "sha256:"+digest(manifest(content)))
	require.NoError(f, err)
	second, err := (&pluginsign.File{Manifest: manifest(content), Signatures: []pluginsign.Signature{s}}).Text()
	require.NoError(f, err)
	bare := base64.StdEncoding.EncodeToString(signed.Signatures[0].Signature)
	for _, seed := range []string{string(text), string(second), bare, "{}", ""} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		parsed, err := pluginsign.Parse(text)
		if err != nil {
			return
		}
		if _, err := (pluginsign.Keys{public}).Verify(parsed, digest(content)); err == nil {
			t.Fatalf("verified: %q", text)
		}
		written, err := parsed.Text()
		require.NoError(t, err)
		if len(written) > pluginsign.MaxBytes {
			return // with the spaces that make it readable
		}
		again, err := pluginsign.Parse(written)
		require.NoError(t, err)
		require.Equal(t, parsed, again)
	})
}
