package host_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/host"
	"github.com/wasmnode/wasmnode/sandbox/wasmbin"
)

// withMetadata is a plugin with sections of metadata.
func withMetadata(t testing.TB, sections ...string) []byte {
	t.Helper()
	wasm := guest(nil, nil).Bytes()
	for i, s := range sections {
		var err error
		wasm, err = wasmbin.SetCustom(wasm, strings.Repeat("-", len(sections)-1-i)+abi.SectionMetadata, []byte(s))
		require.NoError(t, err)
	}
	return wasm
}

func TestAFileSaysWhatItIs(t *testing.T) {
	plain := guest(nil, nil).Bytes()
	spec, err := host.Inspect(plain, len(plain))
	require.NoError(t, err)
	require.Nil(t, spec.Metadata)

	want := host.Metadata{Name: "fake", Version: "1.0.0", License: "MPL-2.0 <x>", Source: "https://example.org", MinABI: "1.0"}
	wasm, err := host.Annotate(plain, want)
	require.NoError(t, err)
	spec, err = host.Inspect(wasm, len(wasm))
	require.NoError(t, err)
	require.Equal(t, &want, spec.Metadata)
	require.True(t, bytes.HasPrefix(wasm, plain), "nothing else has changed")

	other, err := host.Annotate(wasm, host.Metadata{License: "MIT"})
	require.NoError(t, err)
	again, err := host.Annotate(other, want)
	require.NoError(t, err)
	require.Equal(t, wasm, again, "the same input is the same file")

	_, err = host.Annotate(plain, host.Metadata{Source: strings.Repeat("x", 257)})
	require.EqualError(t, err, "source has 257 bytes, at most 256 are allowed")
	_, err = host.Annotate([]byte("text"), want)
	require.ErrorIs(t, err, wasmbin.ErrNotWasm)
}

func TestMetadataThatIsNoneRefusesTheFile(t *testing.T) {
	const in = "policy: section wasmnode:metadata: "
	for section, want := range map[string]string{
		`{}`: "", `{"min_abi": ""}`: "", `{"min_abi": "1.0", "of a later node": {}}`: "",
		``:                      in + "it is not a JSON object",
		`[]`:                    in + "it is not a JSON object",
		`{"name": 1}`:           in + "json: cannot unmarshal number into Go struct field Metadata.name of type string",
		`{"name": "a\u001b[m"}`: in + `name has what is not printable: a\u001b[m`,
		`{"min_abi": "1"}`:      in + `min_abi "1" is not a version of the ABI, such as "1.0"`,
		`{"min_abi": "1.00"}`:   in + `min_abi "1.00" is not a version of the ABI, such as "1.0"`,
		`{"min_abi": "1.-1"}`:   in + `min_abi "1.-1" is not a version of the ABI, such as "1.0"`,
		`{"min_abi": "1.1"}`:    "policy: the plugin needs version 1.1 of the plugin ABI, this node has 1.0: take a newer node, or a plugin that is built for this one",
		`{"min_abi": "2.0"}`:    "policy: the plugin needs version 2.0 of the plugin ABI, this node has 1.0: take a newer node, or a plugin that is built for this one",
		`{"source": "` + strings.Repeat("x", 257) + `"}`: in + "source has 257 bytes, at most 256 are allowed",
		`{"source": "` + strings.Repeat("x", 256) + `"}`: "",
		`{"x": "` + strings.Repeat("x", 4087) + `"}`:     "",
		`{"x": "` + strings.Repeat("x", 4088) + `"}`:     in + "it has 4097 bytes, at most 4096 are allowed",
	} {
		wasm := withMetadata(t, section)
		_, err := host.Inspect(wasm, len(wasm))
		if want == "" {
			require.NoError(t, err, section)
		} else {
			require.EqualError(t, err, want)
		}
	}
	twice := bytes.ReplaceAll(withMetadata(t, "{}", "{}"), []byte("\x12-"+abi.SectionMetadata), []byte("\x11"+abi.SectionMetadata+" "))
	_, err := host.Inspect(twice, len(twice))
	require.ErrorContains(t, err, abi.SectionMetadata+" is there twice")
}

// A node loads nothing that says it is what it is not.
func TestMetadataAgreesWithWhatAPluginAnswers(t *testing.T) {
	w := newWorld(t, host.Limits{})
	name := w.ready(t, guest(nil, nil).Bytes(), host.Grants{}).Name()
	for section, want := range map[string]string{
		`{"name": "` + name + `"}`: "",
		`{"name": "other"}`:        `describe: its metadata calls it "other", describe answers "` + name + `": write it anew with wasmnode plugin annotate`,
		`{"version": "7.7.7"}`:     `describe: plugin ` + name + `: its metadata says version "7.7.7", describe answers "`,
	} {
		p, err := w.Load(t.Context(), host.NewSource(withMetadata(t, section)))
		if want == "" {
			require.NoError(t, err)
			p.Close()
			continue
		}
		require.ErrorContains(t, err, want)
	}
}

// Whatever the section: it is metadata that can be written again, or an error of one line.
func FuzzMetadata(f *testing.F) {
	f.Add([]byte(`{"name": "x", "version": "1.0.0", "license": "MIT", "source": "s", "min_abi": "1.0"}`))
	f.Add([]byte(`{"min_abi": "2.0"}`))
	f.Fuzz(func(t *testing.T, section []byte) {
		wasm := withMetadata(t, string(section))
		spec, err := host.Inspect(wasm, len(wasm))
		if err != nil {
			require.NotContains(t, err.Error(), "\n")
			return
		}
		again, err := host.Annotate(wasm, *spec.Metadata)
		require.NoError(t, err)
		reread, err := host.Inspect(again, len(again))
		require.NoError(t, err)
		require.Equal(t, spec.Metadata, reread.Metadata)
	})
}

// Whatever the bytes: a module stays one, and keeps what else is in it.
func FuzzSetCustom(f *testing.F) {
	f.Add(guest(nil, nil).Bytes())
	f.Add([]byte("\x00asm\x01\x00\x00\x00\x00\x02\x01x"))
	f.Fuzz(func(t *testing.T, wasm []byte) {
		out, err := wasmbin.SetCustom(wasm, "x", []byte("content"))
		if err != nil {
			return
		}
		again, err := wasmbin.SetCustom(out, "x", []byte("content"))
		require.NoError(t, err)
		require.Equal(t, out, again)
		if m, err := wasmbin.Decode(wasm, wasmbin.DefaultLimits()); err == nil {
			changed, err := wasmbin.Decode(out, wasmbin.DefaultLimits())
			if err != nil {
				require.ErrorIs(t, err, wasmbin.ErrLimit)
				return
			}
			require.Equal(t, m.Exports, changed.Exports)
			require.Equal(t, "content", string(changed.Content(changed.Customs[len(changed.Customs)-1])))
		}
	})
}
