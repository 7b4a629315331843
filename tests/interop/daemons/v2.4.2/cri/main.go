// Command cri makes one call of the CRI: `cri SOCKET RunPodSandbox '{"config":{…}}'`. Messages are JSON, in and out.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"reflect"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	runtime "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const limit = 30 * time.Second

func main() {
	log.SetFlags(0)
	log.SetPrefix("cri: ")
	if len(os.Args) != 4 {
		log.Fatal("usage: cri SOCKET CALL REQUEST")
	}
	reply, err := call(os.Args[1], os.Args[2], os.Args[3])
	if err != nil {
		log.Fatalf("%s: %v", os.Args[2], err)
	}
	fmt.Println(reply)
}

func call(socket, name, request string) (string, error) {
	connection, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return "", err
	}
	defer connection.Close()
	method := reflect.ValueOf(runtime.NewRuntimeServiceClient(connection)).MethodByName(name)
	if !method.IsValid() {
		return "", fmt.Errorf("there is no such call")
	}
	// A method takes a context, a pointer to a request, and options, and returns a reply and an error.
	message := reflect.New(method.Type().In(1).Elem())
	if err := protojson.Unmarshal([]byte(request), message.Interface().(proto.Message)); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	results := method.Call([]reflect.Value{reflect.ValueOf(ctx), message})
	if err, ok := results[1].Interface().(error); ok {
		return "", err
	}
	text, err := protojson.Marshal(results[0].Interface().(proto.Message))
	return string(text), err
}
