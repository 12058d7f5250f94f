package template_test

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	sockaddr "github.com/hashicorp/go-sockaddr/template"
	"github.com/stretchr/testify/require"
)

func TestAddressesAreGoSockaddrs(t *testing.T) {
	in := input(t, nil)
	for _, query := range []string{
		"GetAllInterfaces | include `name` `^lo$` | include `type` `IPv4` | attr `address`", "GetInterfaceIP `lo`", "GetInterfaceIP `none`",
		"GetAllInterfaces | include `name` `^lo$` | sort `-address` | limit 1 | join `size` ` `",
		"GetPrivateIPs", "GetPublicIPs", "GetInterfaceIPs `lo`", "GetAllInterfaces | sort `+name,-type,address` | join `string` `,`",
		"GetAllInterfaces | include `type` `IPv4` | sort `default,address` | attr `name`", "GetAllInterfaces | include `type` `IPv4` | sort `-default,address` | attr `name`",
		"GetAllInterfaces | exclude `name` `^lo$` | offset 0 | unique `name` | limit 1 | math `address` `+1` | attr `address`",
	} {
		want, err := sockaddr.Parse("{{ " + query + " }}")
		require.NoError(t, err)
		out, err := renderAny(t, in, fmt.Sprintf("{{ sockaddr %q }}", query))
		require.NoError(t, err)
		require.Equal(t, want, out, query)
	}
	out, err := renderAny(t, in, "{{ sockaddr \"GetAllInterfaces | include\" \"`name` `^lo$` | attr\" \"`name`\" }}")
	require.NoError(t, err)
	require.Equal(t, "lo", out, "arguments are one expression")
}

// What needs the default route is go-sockaddr's, too, without the program that this asks for it.
func TestTheDefaultRouteIsKnownWithoutAProgram(t *testing.T) {
	in := input(t, nil)
	want := map[string]string{}
	if _, err := exec.LookPath("ip"); err == nil {
		for _, query := range []string{"GetPrivateIP", "GetPublicIP", "GetDefaultInterfaces | join `address` ` `", "GetPrivateInterfaces | attr `address`", "GetPublicInterfaces | attr `name`"} {
			out, err := sockaddr.Parse("{{ " + query + " }}")
			if err == nil { // there is a default route
				want[query] = out
			}
		}
	}
	t.Setenv("PATH", t.TempDir())
	for query, want := range want {
		out, err := renderAny(t, in, fmt.Sprintf("{{ sockaddr %q }}", query))
		require.NoError(t, err)
		require.Equal(t, want, out, query)
	}
}

func TestWhatIsAskedAboutAddressesIsBounded(t *testing.T) {
	in := input(t, nil)
	for asked, want := range map[string]string{
		"{{ sockaddr `x }}{{ range GetAllInterfaces` }}":             "one expression, without {{ and }}",
		"{{ sockaddr `" + strings.Repeat("a", 1025) + "` }}":         "has 1025 bytes, more than 1024",
		"{{ range loop 17 }}{{ sockaddr (printf `%d` .) }}{{ end }}": "more than 16 different addresses",
		"{{ sockaddr `GetNone` }}":                                   `function "GetNone" not defined`,
	} {
		_, err := renderAny(t, in, asked)
		require.ErrorContains(t, err, want)
	}
	_, err := renderAny(t, in, "{{ range loop 100 }}{{ sockaddr `1` }}{{ end }}")
	require.NoError(t, err, "the same is asked once")
}
