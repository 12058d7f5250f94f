package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/sdk/go/config"
)

// dockerConfig writes a configuration of Docker's and returns the path.
func dockerConfig(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.json")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

func TestDockersConfigurationHasCredentialsByRegistry(t *testing.T) {
	file := dockerConfig(t, `{
		"auths": {
			"https://index.docker.io/v1/": {"auth": "`+base64.StdEncoding.EncodeToString([]byte("me:a:b"))+`"},
			"registry.example": {"username": "u", "password": "p", "email": "e"},
			"http://127.0.0.1:5000": {"identitytoken": "i"},
			"stored.example": {}
		},
		"credHelpers": {"gcr.io": "gcloud"},
		"credsStore": "desktop"
	}`)
	for image, want := range map[string]struct {
		login
		helper string
	}{
		"redis:7":                    {login{username: "me", password: "a:b", server: "https://index.docker.io/v1/"}, ""},
		"docker.io/library/redis":    {login{username: "me", password: "a:b", server: "https://index.docker.io/v1/"}, ""},
		"some/redis":                 {login{username: "me", password: "a:b", server: "https://index.docker.io/v1/"}, ""},
		"registry.example/a/b:1":     {login{username: "u", password: "p", email: "e", server: "registry.example"}, ""},
		"127.0.0.1:5000/a":           {login{identity: "i", server: "http://127.0.0.1:5000"}, ""},
		"gcr.io/a":                   {login{}, "gcloud"},
		"stored.example/a":           {login{}, "desktop"},
		"registry.example.evil/a":    {login{}, "desktop"},
		"localhost/registry.example": {login{}, "desktop"},
		"LOCALHOST/foo":              {login{}, "desktop"},
		"Evil/redis":                 {login{}, "desktop"},
	} {
		got, helper, err := loginFrom(file, registryOf(parseReference(image).repository))
		require.NoError(t, err, image)
		require.Equal(t, want.login, got, image)
		require.Equal(t, want.helper, helper, image)
	}
	for text, says := range map[string]string{
		`{"auths": {}}`: "", `{}`: "", `{`: "auth.config: ", strings.Repeat(" ", maxSetting-2) + "{}": "", strings.Repeat(" ", maxSetting-1) + "{}": "more than 1 MiB",
		`{"credsStore": "../x"}`: `names a credential helper that is none: "../x"`, `{"credHelpers": {"docker.io": "a b"}}`: "names a credential helper that is none",
	} {
		got, helper, err := loginFrom(dockerConfig(t, text), hub)
		require.Equal(t, login{}, got)
		require.Empty(t, helper)
		if says == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, says)
		}
	}
}

func TestATasksCredentialsComeBeforeThePlugins(t *testing.T) {
	good := dockerConfig(t, `{"auths": {"r.example": {"username": "u", "password": "p"}}}`)
	for name, tt := range map[string]struct{ file, task, want, says string }{
		"the task's":   {good, `{"auth": {"username": "t", "password": "s", "server_address": "x"}}`, `{"username": "t", "password": "s", "serveraddress": "x"}`, ""},
		"the plugin's": {good, `{}`, `{"username": "u", "password": "p", "serveraddress": "r.example"}`, ""},
		"nobody's":     {"", `{}`, "", ""},
		"one that is not so": {"/not/there.json", `{}`, "", `Failed to find docker auth for repo r.example/a: auth.config: /not/there.json: no such file or directory: ` +
			`the plugin sees a file whose directory is granted, grant { fs { read_only = ["/not"] } }`},
	} {
		t.Run(name, func(t *testing.T) {
			d := &docker{}
			require.NoError(t, d.Configure(context.Background(), []byte(`{"endpoint": "unix:///s", "auth": {"config": "`+tt.file+`"}}`)))
			c, err := config.Parse([]byte(tt.task))
			require.NoError(t, err)
			header, err := d.credentials(context.Background(), c, parseReference("r.example/a:1"))
			if tt.says != "" {
				require.EqualError(t, err, tt.says)
				return
			}
			require.NoError(t, err)
			if tt.want == "" {
				require.Empty(t, header)
				return
			}
			text, err := base64.URLEncoding.DecodeString(header[0].Value)
			require.NoError(t, err)
			require.True(t, json.Valid(text))
			require.JSONEq(t, tt.want, string(text))
		})
	}
}
