package cluster

import (
	"fmt"
	"time"

	"github.com/wasmnode/wasmnode/internal/claims"
)

// maxSkew is how far this machine's clock and that of the servers may be apart: certificates and tokens
// go by both, and tokens that introduce nodes last for minutes.
const maxSkew = time.Minute

// times are when a token of the servers was signed, and until when it is good; zero: it does not say.
// Nothing of it is verified: it is only told.
func times(token string) (signed, until time.Time) {
	var says struct{ Iat, Exp int64 }
	if claims.Read(token, &says) != nil {
		return
	}
	if says.Iat > 0 {
		signed = time.Unix(says.Iat, 0)
	}
	if says.Exp > 0 {
		until = time.Unix(says.Exp, 0)
	}
	return
}

// compareClocks says, once, that a token which the servers have just signed is of another time.
func (cp *ControlPlane) compareClocks(token string) {
	signed, _ := times(token)
	now := cp.servers.timing.clock()
	apart := now.Sub(signed).Abs() > maxSkew && !signed.IsZero()
	if cp.skewed.Swap(apart) == apart || !apart {
		return
	}
	cp.logger.Warn("the clock of this machine is not that of the servers: certificates and tokens are refused by one that is wrong",
		"servers", inUTC(signed), "here", inUTC(now), "remedy", "timedatectl set-ntp true, here and on the servers")
}

// introductionHint says of a token that introduces the node that it is not good any more. The text stays the
// same from try to try: who says it once goes by that.
func (cp *ControlPlane) introductionHint(token string) string {
	_, until := times(token)
	if !until.IsZero() && cp.servers.timing.clock().After(until) {
		return fmt.Sprintf(" (the one that is there was good until %s, by the clock of this machine)", inUTC(until))
	}
	return ""
}
