package config_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wasmnode/wasmnode/agent/config"
)

func TestWhereTracesAreSentIsRead(t *testing.T) {
	c, err := loaded(t, "a.hcl", "tracing {\n  endpoint = \"https://traces.example.com:4318/otlp\"\n  headers = { X-Scope = \"a\" }\n}\n")
	require.NoError(t, err)
	require.NoError(t, c.Validate())
	require.Empty(t, c.Warnings)
	require.Equal(t, config.Tracing{Endpoint: "https://traces.example.com:4318/otlp", Headers: map[string]string{"X-Scope": "a"}}, c.Tracing)
	require.Equal(t, []string{"tracing.endpoint", "tracing.headers"}, config.Changes(config.Default(), c))
}

func TestWhatIsWrongWithTracesIsSaid(t *testing.T) {
	for text, want := range map[string]string{
		`endpoint = "127.0.0.1:4318"`:                                       `tracing.endpoint: "127.0.0.1:4318" is no address such as http://127.0.0.1:4318`,
		`endpoint = "grpc://127.0.0.1:4317"`:                                `tracing.endpoint: "grpc://127.0.0.1:4317" is no address such as http://127.0.0.1:4318`,
		`endpoint = "http://a:b@c:1"`:                                       `tracing.endpoint: "http://a:b@c:1" is no address such as http://127.0.0.1:4318`,
		`headers = { a = "b" }`:                                             `tracing.headers: there is no endpoint that they would be sent to`,
		"endpoint = \"http://[::1]:1\"\nheaders = { \"a b\" = \"c\" }":      `tracing.headers: "a b" is no header, or its value is none`,
		"endpoint = \"http://[::1]:1\"\nheaders = { content-type = \"c\" }": `tracing.headers: "content-type" is one that the agent sets itself`,
	} {
		c, err := loaded(t, "a.hcl", "tracing {\n"+text+"\n}\n")
		require.NoError(t, err)
		require.EqualError(t, c.Validate(), want)
	}
	c, err := loaded(t, "a.hcl", "tracing {\n  endpoint = \"http://collector:4318\"\n}\n")
	require.NoError(t, err)
	require.NoError(t, c.Validate())
	require.Equal(t, []string{"tracing.endpoint: it is not encrypted, and traces name jobs, tasks and errors: use https, or a collector on this machine"}, c.Warnings)
}
