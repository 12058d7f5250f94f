package main

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/abi"
	"github.com/wasmnode/wasmnode/sdk/go/process"
)

func TestACredentialHelperIsAskedForARegistrysCredentials(t *testing.T) {
	file := dockerConfig(t, `{"auths": {"r.example": {"username": "u", "password": "p"}}, "credHelpers": {"gcr.io": "gcloud"}}`)
	const ecr, store = `{"auth": {"helper": "ecr-login"}}`, `{"auth": {"config": "FILE", "helper": "ecr-login"}, "helper_directory": "/opt/bin"}`
	for name, c := range map[string]struct {
		settings, image, more string
		ended                 *process.Ended // nil: it is not granted
		ran, asked            string         // the program, and for what
		sent, says            string
		again                 bool
	}{
		"a password": {settings: ecr, image: "1.ecr.example/a:1", ended: &process.Ended{Stdout: []byte(`{"ServerURL": "x", "Username": "AWS", "Secret": "s"}` + "\n")},
			ran: "/usr/bin/docker-credential-ecr-login", asked: "1.ecr.example", sent: `{"username":"AWS","password":"s","serveraddress":"1.ecr.example"}`},
		"a token": {settings: ecr, image: "redis:7", ended: &process.Ended{Stdout: []byte(`{"Username": "<token>", "Secret": "s"}`)},
			ran: "/usr/bin/docker-credential-ecr-login", asked: hubServer, sent: `{"serveraddress":"https://index.docker.io/v1/","identitytoken":"s"}`},
		"the registry's own helper": {settings: store, image: "gcr.io/a:1", ended: &process.Ended{Stdout: []byte(`{"Username": "u", "Secret": "s"}`)},
			ran: "/opt/bin/docker-credential-gcloud", asked: "gcr.io", sent: `{"username":"u","password":"s","serveraddress":"gcr.io"}`},
		"a file that has it": {settings: store, image: "r.example/a:1", ended: &process.Ended{}, sent: `{"username":"u","password":"p","serveraddress":"r.example"}`},
		"a task that has its own": {settings: ecr, image: "r.example/a:1", more: `, "auth": {"username": "t", "password": "s"}`, ended: &process.Ended{},
			sent: `{"username":"t","password":"s"}`},
		"one that has nothing": {settings: ecr, image: "r.example/a:1", ended: &process.Ended{ExitCode: 1, Stdout: []byte("credentials not found in native keychain\n")},
			ran: "/usr/bin/docker-credential-ecr-login", asked: "r.example"},
		"one that fails": {settings: ecr, image: "r.example/a:1", ended: &process.Ended{ExitCode: 1, Stderr: []byte("no\nidea\n")},
			ran: "/usr/bin/docker-credential-ecr-login", asked: "r.example", again: true,
			says: "Failed to find docker auth for repo r.example/a: the credential helper /usr/bin/docker-credential-ecr-login ends with 1: no idea"},
		"one that says something else": {settings: ecr, image: "r.example/a:1", ended: &process.Ended{Stdout: []byte(`{"Username": "hush`)},
			ran: "/usr/bin/docker-credential-ecr-login", asked: "r.example",
			says: "Failed to find docker auth for repo r.example/a: the credential helper /usr/bin/docker-credential-ecr-login does not answer with a Username and a Secret in JSON"},
		"one that is not granted": {settings: ecr, image: "r.example/a:1", ran: "/usr/bin/docker-credential-ecr-login", asked: "r.example",
			says: "Failed to find docker auth for repo r.example/a: the credential helper /usr/bin/docker-credential-ecr-login: helpers: not granted"},
		"one that a task does without": {settings: ecr, image: "r.example/a:1", more: `, "auth_soft_fail": true`, ran: "/usr/bin/docker-credential-ecr-login", asked: "r.example"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, strings.ReplaceAll(c.settings, "FILE", file))
			n.OnHelper(func(*process.Helper) (*process.Ended, error) {
				if c.ended == nil {
					return nil, abi.NewError(abi.PermissionDenied, "helpers: not granted")
				}
				return c.ended, nil
			})
			sent, pulled := "", false
			answering(n.Listen("/run/docker.sock"), func(r *http.Request) (int, string) {
				switch {
				case r.URL.Path == "/images/create":
					text, err := base64.URLEncoding.DecodeString(r.Header.Get("X-Registry-Auth"))
					if err != nil {
						return http.StatusBadRequest, ""
					}
					sent, pulled = string(text), true
					return http.StatusOK, ""
				case strings.HasPrefix(r.URL.Path, "/images/") && !pulled:
					return http.StatusNotFound, ""
				}
				return http.StatusOK, `{"Id": "x"}`
			})
			_, _, err := n.StartTask(n.Task(`{"image": "` + c.image + `"` + c.more + `}`))
			if c.says == "" {
				require.NoError(t, err)
				require.Equal(t, c.sent, sent)
			} else {
				require.EqualError(t, err, "Failed to pull `"+c.image+"`: "+c.says)
				require.Equal(t, c.again, abi.IsRecoverable(err))
				require.False(t, pulled)
			}
			if c.ran == "" {
				require.Empty(t, n.Helpers())
				return
			}
			require.Len(t, n.Helpers(), 1)
			require.Equal(t, c.ran, n.Helpers()[0].Command)
			require.Equal(t, []string{"get"}, n.Helpers()[0].Args)
			require.Equal(t, c.asked, string(n.Helpers()[0].Stdin))
		})
	}
}
