//go:build !before_v0_4_0

package main

import (
	"context"
	"path"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/ttrpc"
	"google.golang.org/protobuf/proto"
)

// No adaptation does anything with evictions, so they are looked for in what plugins send.
func init() {
	evictions = func(d *diary) adaptation.Option {
		return adaptation.WithTTRPCOptions(
			[]ttrpc.ClientOpts{ttrpc.WithUnaryClientInterceptor(d.lookIntoReply)},
			[]ttrpc.ServerOpt{ttrpc.WithUnaryServerInterceptor(d.lookIntoRequest)},
		)
	}
}

func (d *diary) lookIntoReply(ctx context.Context, request *ttrpc.Request, response *ttrpc.Response, info *ttrpc.UnaryClientInfo, invoke ttrpc.Invoker) error {
	if err := invoke(ctx, request, response); err != nil {
		return err
	}
	var create api.CreateContainerResponse
	var update api.UpdateContainerResponse
	method := path.Base(info.FullMethod)
	switch method {
	case "CreateContainer":
		if err := proto.Unmarshal(response.Payload, &create); err != nil {
			return err
		}
	case "UpdateContainer":
		if err := proto.Unmarshal(response.Payload, &update); err != nil {
			return err
		}
	}
	d.evicted(append(create.GetEvict(), update.GetEvict()...), method)
	return nil
}

func (d *diary) lookIntoRequest(ctx context.Context, unmarshal ttrpc.Unmarshaler, info *ttrpc.UnaryServerInfo, method ttrpc.Method) (any, error) {
	return method(ctx, func(request any) error {
		err := unmarshal(request)
		if update, ok := request.(*api.UpdateContainersRequest); ok && err == nil {
			d.evicted(update.GetEvict(), path.Base(info.FullMethod))
		}
		return err
	})
}

func (d *diary) evicted(list []*api.ContainerEviction, method string) {
	if len(list) > 0 {
		d.write(entry{"evictions": allWords(list), "in": method})
	}
}
