# The image of the runner: its program, the libraries that it is linked to, CA certificates, and nothing else. scripts/image packs the
# same files where there is no container engine, and checks size and contents in both cases.
#
#   docker build -t runner-host:0.1.0 .

FROM rust:1.95-bookworm AS build
WORKDIR /src
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/src/target \
    make release && scripts/image --rootfs /rootfs

FROM scratch
COPY --from=build /rootfs/ /
ENV PATH=/usr/local/bin
# numeric, so that runAsNonRoot can be checked; the root file system may be read-only
USER 65532:65532
EXPOSE 50051
ENTRYPOINT ["/usr/local/bin/runner-host"]
CMD ["serve"]
