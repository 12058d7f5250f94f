package access

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLargeAnswersAreBoundedTogether(t *testing.T) {
	l := DefaultLimits()
	l.Answers = 1 << 20
	b := NewBounds(l)
	first, err := b.Hold(2 << 20)
	require.NoError(t, err, "one alone may be larger")
	_, err = b.Hold(smallAnswer + 1)
	require.ErrorContains(t, err, "as many large answers as it can")
	small, err := b.Hold(smallAnswer)
	require.NoError(t, err)
	small()
	first()
	half, err := b.Hold(1 << 19)
	require.NoError(t, err)
	_, err = b.Hold(1 << 19)
	require.NoError(t, err)
	_, err = b.Hold(1 << 19)
	require.Error(t, err)
	half()
	_, err = b.Hold(1 << 19)
	require.NoError(t, err)
}

func TestAnswersArePutTogetherAFewAtATime(t *testing.T) {
	l := DefaultLimits()
	l.Preparing = 1
	b := NewBounds(l)
	done, err := b.Prepare(t.Context())
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = b.Prepare(ctx)
	require.ErrorIs(t, err, context.Canceled)
	done()
	_, err = b.Prepare(t.Context())
	require.NoError(t, err)
}
