// Command peer is a well-behaved plugin of Go's: it serves on channel 1 of its trunk and calls on channel 2.
//
// A test drives it through its service, nri.test.Peer, whose requests and replies are google.protobuf.BytesValue. It ends
// when its trunk does.
package main

import (
	"context"
	"errors"
	"log"
	"net"

	nrinet "github.com/containerd/nri/pkg/net"
	"github.com/containerd/nri/pkg/net/multiplex"
	"github.com/containerd/ttrpc"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"peers/trunk"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("peer: ")

	mux := multiplex.Multiplex(trunk.Open(), multiplex.WithBlockedRead())
	frames := &frames{Conn: open(mux, multiplex.PluginServiceConn)}
	gone := make(chan struct{})
	runtime := ttrpc.NewClient(open(mux, multiplex.RuntimeServiceConn), ttrpc.WithOnClose(func() { close(gone) }))

	server, err := ttrpc.NewServer()
	if err != nil {
		log.Fatal(err)
	}
	server.RegisterService("nri.test.Peer", describe(&service{frames: frames, runtime: runtime, release: make(chan struct{})}))
	go func() {
		err := server.Serve(context.Background(), nrinet.NewConnListener(frames))
		if err != nil && !errors.Is(err, ttrpc.ErrServerClosed) {
			log.Printf("serve: %v", err)
		}
	}()

	mux.Unblock()
	<-gone
}

func open(mux multiplex.Mux, id multiplex.ConnID) net.Conn {
	conn, err := mux.Open(id)
	if err != nil {
		log.Fatal(err)
	}
	return conn
}

// describe tells ttrpc the methods of the service, with their bytes in a message.
func describe(s *service) *ttrpc.ServiceDesc {
	methods := map[string]ttrpc.Method{}
	for name, method := range s.methods() {
		methods[name] = func(ctx context.Context, unmarshal func(interface{}) error) (interface{}, error) {
			request := &wrapperspb.BytesValue{}
			if err := unmarshal(request); err != nil {
				return nil, err
			}
			reply, err := method(ctx, request.Value)
			return &wrapperspb.BytesValue{Value: reply}, err
		}
	}
	return &ttrpc.ServiceDesc{Methods: methods}
}
