package supervisor

import (
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAServerIsIdleWithoutWorkloadsAndClientsForItsIdleTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const after = time.Minute
		i := newIdle(after)
		staysFor := func(d time.Duration, why string) {
			time.Sleep(d)
			synctest.Wait()
			require.False(t, i.hasExpired(), why)
		}
		staysFor(after-1, "its time has not come")
		i.began()
		staysFor(2*after, "it has a workload")
		client, other := net.Pipe()
		defer func() { require.NoError(t, client.Close()) }()
		i.connection(client, http.StateNew)
		i.ended()
		staysFor(2*after, "it has a client")
		i.connection(other, http.StateNew)
		i.connection(other, http.StateHijacked)
		i.connection(client, http.StateIdle)
		staysFor(2*after, "it has a client that asks nothing")
		i.connection(client, http.StateClosed)
		staysFor(after-1, "its time begins anew")
		<-i.expired
	})
}
