from __future__ import annotations

import base64
import json
import os
from pathlib import Path

import pytest

from dray.client.config import Config, ConfigError
from dray.client.kubeconfig import in_cluster, load


def write(path: Path, *, user: dict | None = None, cluster: dict | None = None, **extra: object) -> Path:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "ns"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://host:6443/", **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}],
        **extra,
    }
    path.write_text(json.dumps(document))  # JSON is YAML
    return path


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def test_inline_certificates_and_tokens(tmp_path):
    path = write(
        tmp_path / "config",
        user={"client-certificate-data": b64(b"cert"), "client-key-data": b64(b"key"), "token": "t"},
        cluster={"certificate-authority-data": b64(b"ca"), "tls-server-name": "other"},
    )
    assert load(path) == Config(
        server="https://host:6443",
        ca=b"ca",
        server_name="other",
        certificate=b"cert",
        key=b"key",
        token="t",
        namespace="ns",
    )


def test_files_are_relative_to_the_kubeconfig(tmp_path):
    for name in ("ca", "cert", "key", "token"):
        (tmp_path / name).write_text(name)
    path = write(
        tmp_path / "config",
        user={"client-certificate": "cert", "client-key": str(tmp_path / "key"), "tokenFile": "token"},
        cluster={"certificate-authority": "ca"},
    )
    config = load(path)
    assert (config.ca, config.certificate, config.key) == (b"ca", b"cert", b"key")
    assert config.token_file == tmp_path / "token"


def test_the_rest_of_what_a_user_can_be(tmp_path):
    user = {
        "username": "me",
        "password": "p",
        "as": "jane",
        "as-uid": "7",
        "as-groups": ["a"],
        "as-user-extra": {"scope": ["1", "2"]},
    }
    config = load(write(tmp_path / "config", user=user, cluster={"insecure-skip-tls-verify": True}))
    assert (config.username, config.password, config.insecure) == ("me", "p", True)
    assert (config.impersonate, config.impersonate_uid, config.impersonate_groups) == ("jane", "7", ("a",))
    assert config.impersonate_extra == (("scope", "1"), ("scope", "2"))


def test_another_context_can_be_chosen(tmp_path):
    contexts = [
        {"name": "here", "context": {"cluster": "c", "user": "u"}},
        {"name": "there", "context": {"cluster": "c", "namespace": "other"}},
    ]
    path = write(tmp_path / "config", user={"token": "t"}, contexts=contexts)
    assert load(path).namespace == "default"
    there = load(path, context="there")
    assert (there.namespace, there.token) == ("other", "")
    with pytest.raises(ConfigError, match="no context named 'nowhere'"):
        load(path, context="nowhere")


def test_several_files_are_merged_and_the_first_is_right(tmp_path):
    first = tmp_path / "first"
    first.write_text("current-context: mine\ncontexts:\n- name: mine\n  context: {cluster: c, user: u}\n")
    second = write(tmp_path / "second", user={"token": "t"})
    environment = {"KUBECONFIG": os.pathsep.join([str(tmp_path / "absent"), str(first), str(second)])}
    config = load(environment=environment)
    assert (config.server, config.token, config.namespace) == ("https://host:6443", "t", "default")


def test_without_anything_said_it_is_in_the_home_directory(tmp_path):
    (tmp_path / ".kube").mkdir()
    write(tmp_path / ".kube" / "config")
    assert load(environment={"HOME": str(tmp_path)}).server == "https://host:6443"


def test_what_cannot_be_used_says_why(tmp_path):
    path = tmp_path / "config"
    with pytest.raises(ConfigError, match="there is no kubeconfig"):
        load(path)
    path.write_text("a: [")
    with pytest.raises(ConfigError, match="not YAML"):
        load(path)
    path.write_text("- a")
    with pytest.raises(ConfigError, match="is no kubeconfig"):
        load(path)
    with pytest.raises(ConfigError, match="no current context"):
        load(write(path, **{"current-context": ""}))
    with pytest.raises(ConfigError, match="has no server"):
        load(write(path, cluster={"server": ""}))
    with pytest.raises(ConfigError, match=r"exec plugin 'aws'.*token file or a client certificate"):
        load(write(path, user={"exec": {"command": "aws"}}))
    with pytest.raises(ConfigError, match="auth-provider plugin 'gcp'"):
        load(write(path, user={"auth-provider": {"name": "gcp"}}))
    with pytest.raises(ConfigError, match="proxy"):
        load(write(path, cluster={"proxy-url": "http://p"}))
    with pytest.raises(ConfigError, match="not base64"):
        load(write(path, user={"client-key-data": "###"}))
    with pytest.raises(ConfigError, match=r"absent\.pem"):
        load(write(path, user={"client-key": "absent.pem"}))
    with pytest.raises(ConfigError, match="no PEM"):
        load(write(path, cluster={"certificate-authority-data": b64(b"x")})).ssl_context()


def test_a_pod_finds_its_service_account(tmp_path):
    (tmp_path / "token").write_text("t")
    (tmp_path / "ca.crt").write_text("ca")
    (tmp_path / "namespace").write_text("mine\n")
    environment = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    config = in_cluster(environment=environment, directory=tmp_path)
    assert (config.server, config.ca, config.namespace) == ("https://[fd00::1]:443", b"ca", "mine")
    assert config.token_file == tmp_path / "token"
    with pytest.raises(ConfigError, match="not a pod"):
        in_cluster(environment={}, directory=tmp_path)
