package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/containerd/ttrpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

type service struct {
	frames  *frames
	runtime *ttrpc.Client
	release chan struct{}
	echoes  atomic.Int64
}

type method func(ctx context.Context, request []byte) ([]byte, error)

func (s *service) methods() map[string]method {
	return map[string]method{
		"Echo":     s.echo,
		"Echoes":   s.count,
		"Zeros":    s.zeros,
		"Frames":   s.sizes,
		"Deadline": s.deadline,
		"Overrun":  s.overrun,
		"Hold":     s.hold,
		"Release":  s.releaseOne,
		"Fail":     s.fail,
		"Panic":    s.panic,
		"Call":     s.call,
		"Flood":    s.flood,
	}
}

func (s *service) echo(_ context.Context, request []byte) ([]byte, error) {
	s.echoes.Add(1)
	return request, nil
}

// count says how often echo ran.
func (s *service) count(context.Context, []byte) ([]byte, error) {
	return strconv.AppendInt(nil, s.echoes.Load(), 10), nil
}

// zeros returns as many bytes as the request says.
func (s *service) zeros(_ context.Context, request []byte) ([]byte, error) {
	n, err := strconv.Atoi(string(request))
	if err != nil {
		return nil, err
	}
	return make([]byte, n), nil
}

// sizes says which frames came on this channel since it was last asked.
func (s *service) sizes(context.Context, []byte) ([]byte, error) {
	return []byte(s.frames.take()), nil
}

// deadline says how many nanoseconds are left to answer it.
func (s *service) deadline(ctx context.Context, _ []byte) ([]byte, error) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return []byte("none"), nil
	}
	return strconv.AppendInt(nil, int64(time.Until(deadline)), 10), nil
}

// overrun answers when its deadline is over, as a plugin does that honours it.
func (s *service) overrun(ctx context.Context, _ []byte) ([]byte, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// hold answers, with its request, when someone calls Release, whatever its deadline.
func (s *service) hold(_ context.Context, request []byte) ([]byte, error) {
	<-s.release
	return request, nil
}

func (s *service) releaseOne(ctx context.Context, _ []byte) ([]byte, error) {
	select {
	case s.release <- struct{}{}:
		return nil, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// fail returns the error that the request names: its code and its message.
func (s *service) fail(_ context.Context, request []byte) ([]byte, error) {
	number, message, _ := bytes.Cut(request, []byte(" "))
	if string(number) == "plain" {
		return nil, errors.New(string(message))
	}
	code, err := strconv.Atoi(string(number))
	if err != nil {
		return nil, err
	}
	return nil, status.Error(codes.Code(code), string(message))
}

func (s *service) panic(_ context.Context, request []byte) ([]byte, error) {
	panic(string(request))
}

// call makes a call of the runtime: "SERVICE METHOD TIMEOUT TEXT", or "SERVICE METHOD TIMEOUT =N" for N bytes of a pattern.
// It returns "CODE MESSAGE", or "OK SIZE TEXT" with what a short reply said.
func (s *service) call(_ context.Context, request []byte) ([]byte, error) {
	parts := bytes.SplitN(request, []byte(" "), 4)
	if len(parts) != 4 {
		return nil, fmt.Errorf("want SERVICE METHOD TIMEOUT TEXT, not %q", request)
	}
	timeout, err := time.ParseDuration(string(parts[2]))
	if err != nil {
		return nil, err
	}
	value := parts[3]
	if bytes.HasPrefix(value, []byte("=")) {
		n, err := strconv.Atoi(string(value[1:]))
		if err != nil {
			return nil, err
		}
		value = pattern(n)
	}

	ctx := context.Background()
	if timeout != 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	reply := &wrapperspb.BytesValue{}
	err = s.runtime.Call(ctx, string(parts[0]), string(parts[1]), &wrapperspb.BytesValue{Value: value}, reply)
	if err != nil {
		return fmt.Appendf(nil, "%d %s", codeOf(err), status.Convert(err).Message()), nil
	}
	if string(parts[1]) == "Echo" && !bytes.Equal(reply.Value, value) {
		return nil, fmt.Errorf("sent %d bytes, and %d others came back", len(value), len(reply.Value))
	}
	if len(reply.Value) > 1024 {
		return fmt.Appendf(nil, "OK %d ", len(reply.Value)), nil
	}
	return fmt.Appendf(nil, "OK %d %s", len(reply.Value), reply.Value), nil
}

func codeOf(err error) codes.Code {
	switch {
	case errors.Is(err, ttrpc.ErrClosed):
		return codes.Unavailable
	case errors.Is(err, context.DeadlineExceeded):
		return codes.DeadlineExceeded
	}
	return status.Code(err)
}

// flood echoes off the runtime: "SERVICE CALLERS CALLS", so many calls by so many callers at once. It returns how many were
// answered, and the first error of each kind.
func (s *service) flood(_ context.Context, request []byte) ([]byte, error) {
	var (
		name           string
		callers, calls int64
	)
	if _, err := fmt.Sscan(string(request), &name, &callers, &calls); err != nil {
		return nil, err
	}

	var (
		next, answered atomic.Int64
		errs           sync.Map
		done           sync.WaitGroup
	)
	for caller := int64(0); caller < callers; caller++ {
		done.Add(1)
		go func() {
			defer done.Done()
			for n := next.Add(1); n <= calls; n = next.Add(1) {
				value := fmt.Appendf(nil, "call %d", n)
				reply := &wrapperspb.BytesValue{}
				err := s.runtime.Call(context.Background(), name, "Echo", &wrapperspb.BytesValue{Value: value}, reply)
				switch {
				case err != nil:
					errs.Store(err.Error(), n)
				case !bytes.Equal(reply.Value, value):
					errs.Store("another call's reply", n)
				default:
					answered.Add(1)
				}
			}
		}()
	}
	done.Wait()

	report := fmt.Appendf(nil, "%d answered", answered.Load())
	errs.Range(func(text, n any) bool {
		report = fmt.Appendf(report, "; call %d: %s", n, text)
		return true
	})
	return report, nil
}

// pattern is n bytes that a shift or a swap changes.
func pattern(n int) []byte {
	value := make([]byte, n)
	for i := range value {
		value[i] = byte(i % 251)
	}
	return value
}
