//! Generates the messages of `cri.proto` with the feature `cri`. protoc is not needed.

fn main() {
    println!("cargo:rerun-if-changed=cri.proto");
    #[cfg(feature = "cri")]
    messages::generate();
}

#[cfg(feature = "cri")]
mod messages {
    use prost::Message as _;
    use prost_types::FileDescriptorSet;
    use protobuf::Message as _;

    pub(crate) fn generate() {
        let parsed = protobuf_parse::Parser::new().pure().include(".").input("cri.proto").file_descriptor_set();
        let bytes = parsed.expect("cri.proto is correct").write_to_bytes().expect("what was read can be written");
        let set = FileDescriptorSet::decode(&bytes[..]).expect("both write descriptors alike");
        // Sorted maps make the encoded bytes deterministic.
        let mut config = prost_build::Config::new();
        config.btree_map(["."]).compile_fds(set).expect("code can be generated");
    }
}
