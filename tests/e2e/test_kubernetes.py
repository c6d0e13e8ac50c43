# SPDX-License-Identifier: MIT
"""docker/kubernetes: the objects that kubectl makes of it are valid, agree with each other and with
what the program and its pages say, and each container's command works with the files and variables
that it gets. scripts/part_kubernetes.sh fetches kubectl and the schemas."""

import base64
import importlib
import ipaddress
import json
import os
import pathlib
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import textwrap
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import suite  # noqa: E402
import installation  # noqa: E402
import test_memory  # noqa: E402
from installation import block, page  # noqa: E402

FOLDER = "docker/kubernetes"
OVERLAY = "overlays/example"
# The oldest version that the page names, and the newest one that the schemas know.
VERSIONS = ("1.30.0", "1.37.0")
PASSWORD = "a password of {}"
TOKEN = "0123456789abcdef0123456789abcdef"
MIB = 1 << 20
WORKLOADS = ("Deployment", "StatefulSet", "Job")


def part():
    """The folder of scripts/part_kubernetes.sh."""
    return pathlib.Path(os.environ["TALLYBOX_KUBERNETES"])


def yaml():
    packages = str(part() / "packages")
    if packages not in sys.path:
        sys.path.insert(1, packages)
    return importlib.import_module("yaml")


def read_yaml(name):
    return list(yaml().safe_load_all(page(f"{FOLDER}/{name}")))


def kustomize(folder):
    """The text of the objects of a folder."""
    done = subprocess.run([str(part() / "kubectl"), "kustomize", str(folder)], capture_output=True,
                          text=True, timeout=120, check=False)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return done.stdout


def copy_example(folder):
    """The files of the repository in a folder; the overlay's."""
    shutil.copytree(suite.ROOT / FOLDER, folder, symlinks=True)
    for path in (folder / OVERLAY / "secrets").iterdir():
        if path.name not in (".gitignore", "kustomization.yaml"):
            path.unlink()
    return folder / OVERLAY


def add_secrets(overlay):
    """What README makes, without a database."""
    for role in (*roles(), "migrate"):
        (overlay / f"secrets/{role}.password").write_text(PASSWORD.format(role) + "\n")
    (overlay / "secrets/tokens").write_text(f"{TOKEN} votes read\n")
    (overlay / "secrets/mysql-ca.crt").write_text("a certificate\n")


def roles():
    """Those that run as processes: docs/sizing.md counts the connections of each."""
    line = re.search(r"\*\*Connections\*\*[^:]*:(.*)\n", page("docs/sizing.md"))[1]
    return re.findall(r"`(\w+)` \d+", line)


def pod_of(item):
    """The template of a workload, or None."""
    return item["spec"]["template"] if item["kind"] in WORKLOADS else None


def memory_of(text):
    number, unit = re.fullmatch(r"(\d+)(Mi|Gi)", text).groups()
    return int(number) * (MIB if unit == "Mi" else 1024 * MIB)


class Objects:
    """What is in the text that kubectl prints."""

    def __init__(self, text):
        self.text = text
        self.items = list(yaml().safe_load_all(text))

    def of(self, kind):
        return {item["metadata"]["name"]: item for item in self.items if item["kind"] == kind}

    def one(self, kind, name):
        return self.of(kind)[name]

    def workload(self, role):
        for kind in ("Deployment", "StatefulSet"):
            if role in self.of(kind):
                return self.one(kind, role)
        return next(job for job in self.of("Job").values()
                    if job["metadata"]["labels"]["app.kubernetes.io/component"] == role)

    def workloads(self):
        return [item for item in self.items if pod_of(item)]


class Container:
    """The one container of a workload as a process of this machine: its files are under a folder,
    and their places in arguments, variables and settings are moved there."""

    def __init__(self, objects, workload, folder):
        self.objects = objects
        self.workload = workload
        self.folder = folder
        self.pod = pod_of(workload)["spec"]
        self.spec, = self.pod["containers"]
        self.name = f"{workload['metadata']['name']}-0"
        for mount in self.spec["volumeMounts"]:
            self.mount(mount)

    def moved(self, text):
        return text.replace("/etc/tallybox", f"{self.folder}/etc/tallybox")

    def content(self, volume):
        """{file: bytes}, mode"""
        if "secret" in volume:
            data = self.objects.one("Secret", volume["secret"]["secretName"])["data"]
            return {key: base64.b64decode(value) for key, value in data.items()}, \
                volume["secret"]["defaultMode"]
        data = self.objects.one("ConfigMap", volume["configMap"]["name"])["data"]
        return {key: self.moved(value).encode() for key, value in data.items()}, 0o644

    def mount(self, mount):
        volume = next(one for one in self.pod["volumes"] if one["name"] == mount["name"])
        place = pathlib.Path(self.moved(mount["mountPath"]))
        place.mkdir(parents=True)
        files, mode = self.content(volume)
        for name, content in files.items():
            (place / name).write_bytes(content)
            (place / name).chmod(mode)

    def variables(self):
        found = {}
        for source in self.spec["envFrom"]:
            found.update(self.objects.one("ConfigMap", source["configMapRef"]["name"])["data"])
        for variable in self.spec.get("env", ()):
            assert variable["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.name"
            found[variable["name"]] = self.name
        return {key: self.moved(value) for key, value in found.items()}

    def environment(self, **more):
        return suite.clean_environment(**self.variables(), **more)

    @property
    def arguments(self):
        return [self.moved(word) for word in self.spec["args"]]

    @property
    def role(self):
        return self.spec["args"][0]

    @property
    def settings_file(self):
        return self.arguments[self.arguments.index("--config") + 1]

    def config(self, *words, **more):
        """`tallybox config` with the files and variables of the container."""
        return subprocess.run([suite.BINARY, "config", "--config", self.settings_file, "--role",
                               self.role, *words], capture_output=True, text=True, timeout=60,
                              check=False, env=self.environment(**more))

    def settings(self):
        done = self.config("--json")
        if done.returncode != 0:
            raise AssertionError(f"{self.role}: {done.stdout}{done.stderr}")
        return {key: one["value"] for key, one in json.loads(done.stdout).items()}

    def port(self, name):
        return next(port["containerPort"] for port in self.spec["ports"] if port["name"] == name)


class Case(unittest.TestCase):
    """On the objects of the example, with secrets of a test."""

    any_database = True
    needs = "kubernetes"

    @classmethod
    def setUpClass(cls):
        cls.work = pathlib.Path(tempfile.mkdtemp(prefix="kubernetes-", dir=suite.run().folder))
        cls.addClassCleanup(shutil.rmtree, cls.work, ignore_errors=True)
        cls.overlay = copy_example(cls.work / "example")
        add_secrets(cls.overlay)
        cls.objects = Objects(kustomize(cls.overlay))
        cls.base = Objects(kustomize(cls.work / "example/base"))
        cls.containers = {}
        for workload in cls.objects.workloads():
            name = workload["metadata"]["labels"]["app.kubernetes.io/component"]
            cls.containers[name] = Container(cls.objects, workload, cls.work / name)

    def each(self):
        """The containers, each in a sub-test."""
        for name, container in self.containers.items():
            with self.subTest(workload=name):
                yield container

    def each_role(self):
        for container in self.each():
            if container.role != "migrate":
                yield container


class Schemas(Case):
    """In the eyes of Kubernetes."""

    seconds = 15

    def validate(self, items, version):
        """The exit code, and what the validator prints: an unknown kind is a warning."""
        path = self.work / "objects.yaml"
        path.write_text(yaml().safe_dump_all(items))
        done = subprocess.run(
            [sys.executable, "-m", "kubernetes_validate", "--strict", "--kubernetes-version",
             version, str(path)],
            capture_output=True, text=True, timeout=300, check=False, cwd=self.work,
            env=suite.clean_environment(PYTHONPATH=str(part() / "packages"),
                                        PYTHONDONTWRITEBYTECODE="1"))
        return done.returncode, done.stdout + done.stderr

    def check(self, items, version):
        code, said = self.validate(items, version)
        self.assertEqual(code, 0, said)
        self.assertEqual(said.count(" passed for resource "), len(items), said)

    def test_all_objects_are_valid(self):
        for version in VERSIONS:
            self.check(self.objects.items, version)

    def test_the_base_alone_is_valid(self):
        self.check(self.base.items, VERSIONS[0])

    def test_a_wrong_field_is_refused(self):
        for kind, name, old, new in (
                ("Deployment", "relay", '"readinessProbe"', '"readyProbe"'),
                ("HorizontalPodAutoscaler", "consume", '"maxReplicas": 12', '"maxReplicas": "x"'),
                ("NetworkPolicy", "to-mysql", '"podSelector"', '"podsSelector"')):
            text = json.dumps(self.objects.one(kind, name))
            self.assertIn(old, text)
            wrong = json.loads(text.replace(old, new))
            self.assertNotEqual(self.validate([wrong], VERSIONS[-1])[0], 0)

    def test_the_page_names_the_oldest_version(self):
        self.assertIn(f"Kubernetes {VERSIONS[0].removesuffix('.0')} or newer",
                      page(f"{FOLDER}/README.md"))


class Roles(Case):
    """Each role has what it needs."""

    def test_each_role_that_runs_has_a_workload(self):
        self.assertEqual(set(self.containers), {*roles(), "migrate"})
        for container in self.each():
            self.assertEqual(container.role, container.workload["metadata"]["name"].split("-")[0])

    def test_each_role_logs_in_with_its_own_account(self):
        granted = set(re.findall(r"^-- (\w+): `tallybox", page("docs/grants.md"), re.M))
        for container in self.each():
            self.assertIn(container.role, granted)
            volume = next(one for one in container.pod["volumes"] if one["name"] == "account")
            self.assertEqual(volume["secret"]["secretName"], f"{container.role}-account")
            settings = container.settings()
            self.assertEqual(settings["mysql.user"], f"tallybox_{container.role}")
            self.assertEqual(pathlib.Path(settings["mysql.password_file"]).read_text(),
                             PASSWORD.format(container.role) + "\n")

    def test_no_other_account_can_read_a_mounted_secret(self):
        for container in self.each():
            self.assertTrue(container.pod["securityContext"]["fsGroup"])
            for path in (container.folder / "etc/tallybox").rglob("*"):
                if path.parent.name in ("account", "tokens"):
                    self.assertEqual(stat.S_IMODE(path.stat().st_mode), 0o440)

    def test_every_setting_is_accepted(self):
        for container in self.each():
            settings = container.config()
            self.assertEqual(settings.returncode, 0, settings.stdout + settings.stderr)
            for variable in container.variables():
                self.assertIn(f"environment {variable}", settings.stdout)
            wrong = container.config(TALLYBOX_MYSQL_HOTS="x")
            self.assertEqual(wrong.returncode, suite.USAGE)

    def test_the_variables_of_a_service_would_be_taken_for_settings(self):
        for container in self.each():
            self.assertIs(container.pod["enableServiceLinks"], False)
            linked = container.config(TALLYBOX_MYSQL_PORT="tcp://10.0.0.1:3306")
            self.assertEqual(linked.returncode, suite.USAGE)

    def test_the_probes_ask_the_admin_port(self):
        for container in self.each_role():
            host, port = container.settings()["admin.listen"].rsplit(":", 1)
            self.assertTrue(ipaddress.ip_address(host).is_unspecified)
            self.assertEqual(container.port("admin"), int(port))
            for probe, path in (("startupProbe", "/healthz"), ("livenessProbe", "/healthz"),
                                ("readinessProbe", "/readyz")):
                self.assertEqual(container.spec[probe]["httpGet"], {"path": path, "port": "admin"})

    def test_a_stop_has_the_time_that_it_may_take(self):
        for container in self.each_role():
            grace = container.pod["terminationGracePeriodSeconds"]
            before = container.spec.get("lifecycle", {}).get("preStop", {}).get(
                "sleep", {}).get("seconds", 0)
            self.assertGreater(grace, before + container.settings()["admin.stop_timeout_ms"] / 1000)

    def test_memory_is_bounded_as_the_page_tells(self):
        text = page(f"{FOLDER}/README.md")
        limit = int(re.search(r"a limit of (\d+) MiB", text)[1]) * MIB
        for container in self.each():
            resources = container.spec["resources"]
            self.assertEqual(memory_of(resources["limits"]["memory"]), limit)
            self.assertLessEqual(memory_of(resources["requests"]["memory"]), limit)
        base, times = map(float, re.search(r"Plan for (\d+) MiB and ([\d.]+) times",
                                           page("docs/sizing.md")).groups())
        serve = self.containers["serve"].settings()
        bound = base * MIB + times * (serve["api.page_cache_bytes_max"]
                                      + serve["api.recommended_bytes_max"])
        bound += serve["api.connections_max"] * serve["api.body_bytes_max"]
        self.assertIn(f": {bound / MIB:.0f} MiB |", text)
        self.assertLess(bound, limit)
        # tests/e2e/test_memory.py measures relay and consume with these settings.
        tasks = self.containers["retry"].settings()["retry.in_flight_max"]
        rest = re.search(r"\| `retry` \| (\d+) MiB, .* = (\d+) tasks: (\d+) MiB .* (\d+) KiB each",
                         text)
        self.assertEqual([int(rest[2]), int(rest[3]) * MIB], [tasks, limit])
        self.assertLess(int(rest[1]) * MIB + tasks * int(rest[4]) * 1024, limit)
        memory = self.containers["consume"].settings()["consumer.memory_max"]
        self.assertIn(f"`consumer.memory_max`: {memory // MIB} MiB", text)
        self.assertEqual(memory // MIB + 2, test_memory.LIMIT_MIB)
        self.assertEqual(text.count(f" {test_memory.LIMIT_MIB} MiB"), 2)
        self.assertLess(test_memory.LIMIT_MIB * MIB, limit)

    def test_a_consumer_is_a_static_member_under_the_name_of_its_pod(self):
        self.assertEqual(self.containers["consume"].settings()["kafka.consumer.group.instance.id"],
                         "consume-0")
        self.assertIn("consume", self.objects.of("StatefulSet"))


class Pods(Case):
    """The same for every pod, by the restricted profile of Kubernetes' Pod Security Standards."""

    def test_the_namespace_demands_the_restricted_profile(self):
        labels = self.objects.one("Namespace", "tallybox")["metadata"]["labels"]
        self.assertEqual(labels["pod-security.kubernetes.io/enforce"], "restricted")

    def test_every_pod_complies(self):
        for container in self.each():
            pod, spec = container.pod["securityContext"], container.spec["securityContext"]
            self.assertIs(pod["runAsNonRoot"], True)
            self.assertGreater(pod["runAsUser"], 0)
            self.assertEqual(pod["seccompProfile"], {"type": "RuntimeDefault"})
            self.assertIs(spec["allowPrivilegeEscalation"], False)
            self.assertIs(spec["readOnlyRootFilesystem"], True)
            self.assertEqual(spec["capabilities"], {"drop": ["ALL"]})
            self.assertLessEqual({key for volume in container.pod["volumes"] for key in volume},
                                 {"name", "secret", "configMap"})
            for mount in container.spec["volumeMounts"]:
                self.assertIs(mount["readOnly"], True)

    def test_no_pod_has_a_token_of_the_cluster(self):
        self.assertIs(self.objects.one("ServiceAccount", "tallybox")[
            "automountServiceAccountToken"], False)
        for container in self.each():
            self.assertEqual(container.pod["serviceAccountName"], "tallybox")
            self.assertIs(container.pod["automountServiceAccountToken"], False)

    def test_all_run_the_image_of_the_overlay(self):
        images = {container.spec["image"] for container in self.containers.values()}
        self.assertEqual(images, {"registry.example.com/tallybox:0.1.0"})


class Selectors(Case):
    """Whatever selects pods selects those that it is meant for."""

    def labels(self, workload):
        return pod_of(workload)["metadata"]["labels"]

    def matched(self, selector):
        """The workloads whose pods a selector matches."""
        found = set()
        for name, container in self.containers.items():
            labels = self.labels(container.workload)
            good = all(labels.get(key) == value
                       for key, value in selector.get("matchLabels", {}).items())
            for rule in selector.get("matchExpressions", ()):
                self.assertEqual(rule["operator"], "In")
                good = good and labels.get(rule["key"]) in rule["values"]
            if good:
                found.add(name)
        return found

    def test_each_workload_and_its_budget_select_its_own_pods(self):
        budgets = self.objects.of("PodDisruptionBudget")
        self.assertEqual(set(budgets), set(roles()))
        for container in self.each_role():
            self.assertEqual(self.matched(container.workload["spec"]["selector"]), {container.role})
            budget = budgets[container.role]["spec"]
            self.assertEqual(self.matched(budget["selector"]), {container.role})
            self.assertEqual(budget["maxUnavailable"], 1)

    def test_roles_with_several_pods_spread_over_nodes_and_zones(self):
        for container in self.each_role():
            if container.workload["spec"].get("replicas", 2) < 2:
                continue
            rules = container.pod["topologySpreadConstraints"]
            self.assertEqual([rule["topologyKey"] for rule in rules],
                             ["kubernetes.io/hostname", "topology.kubernetes.io/zone"])
            for rule in rules:
                self.assertEqual(self.matched(rule["labelSelector"]), {container.role})

    def test_each_service_has_pods_and_a_port(self):
        for name, service in self.objects.of("Service").items():
            self.assertEqual(self.matched({"matchLabels": service["spec"]["selector"]}), {name})
            for port in service["spec"]["ports"]:
                self.assertTrue(self.containers[name].port(port["targetPort"]))
        listen = self.containers["serve"].settings()["api.listen"]
        self.assertEqual(self.containers["serve"].port("api"), int(listen.rsplit(":", 1)[1]))

    def test_the_api_answers_to_the_names_of_its_service(self):
        for objects in (self.base, self.objects):
            container = Container(objects, objects.workload("serve"), pathlib.Path(
                tempfile.mkdtemp(dir=self.work))) if objects is self.objects else None
            text = (container.settings()["api.hosts"] if container else re.search(
                r"^hosts = (.*)$", page(f"{FOLDER}/base/tallybox.ini"), re.M)[1])
            service = objects.one("Service", "serve")["metadata"]
            self.assertLessEqual({service["name"], f"{service['name']}.{service['namespace']}.svc"},
                                 set(text.split(",")))

    def test_the_network_policies_allow_what_each_role_needs(self):
        policies = {name: item["spec"] for name, item in self.objects.of("NetworkPolicy").items()}
        self.assertEqual(policies["default-deny"],
                         {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]})
        everything = set(self.containers)
        self.assertEqual(self.matched(policies["to-mysql"]["podSelector"]), everything)
        self.assertEqual(self.matched(policies["to-admin"]["podSelector"]), everything)
        self.assertEqual(self.matched(policies["to-serve"]["podSelector"]), {"serve"})
        self.assertEqual(self.matched(policies["to-kafka"]["podSelector"]), self.need_kafka())
        settings = self.containers["relay"].settings()
        self.assertEqual(self.egress_ports(policies["to-mysql"]), {settings["mysql.port"]})
        self.assertEqual(self.egress_ports(policies["to-kafka"]), {
            int(server.rsplit(":", 1)[1])
            for server in settings["kafka.bootstrap.servers"].split(",")})
        for name, port in (("to-serve", "api"), ("to-admin", "admin")):
            self.assertEqual([one["port"] for rule in policies[name]["ingress"]
                              for one in rule["ports"]], [port])
            self.assertTrue(all(rule["from"] for rule in policies[name]["ingress"]))

    @staticmethod
    def egress_ports(policy):
        return {one["port"] for rule in policy["egress"] for one in rule["ports"]}

    @staticmethod
    def need_kafka():
        """SECURITY tells which ACLs the roles need; the handler kafka publishes, too."""
        return {"relay", "consume", "retry"}


class Versions(Case):
    """What a change of the overlay changes."""

    def build(self, change):
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.work)) / "example"
        shutil.copytree(self.work / "example", folder)
        change(folder / OVERLAY)
        return Objects(kustomize(folder / OVERLAY))

    def names(self, objects, volume):
        return {pod_of(workload)["spec"]["volumes"][at]["configMap"]["name"]
                for workload in objects.workloads() if workload["kind"] != "Job"
                for at, one in enumerate(pod_of(workload)["spec"]["volumes"])
                if one["name"] == volume}

    @staticmethod
    def environments(objects):
        return {pod_of(workload)["spec"]["containers"][0]["envFrom"][0]["configMapRef"]["name"]
                for workload in objects.workloads() if workload["kind"] != "Job"}

    def test_each_version_has_a_job_of_its_own(self):
        def change(overlay):
            path = overlay / "kustomization.yaml"
            path.write_text(path.read_text().replace("newTag: 0.1.0", "newTag: 0.2.0"))
        self.assertEqual(set(self.objects.of("Job")), {"migrate-0.1.0"})
        self.assertEqual(set(self.build(change).of("Job")), {"migrate-0.2.0"})

    def test_a_changed_setting_starts_the_roles_again_and_leaves_the_job(self):
        def change_environment(overlay):
            with open(overlay / "environment.env", "a", encoding="utf-8") as file:
                file.write("TALLYBOX_LOG_LEVEL=debug\n")

        def change_settings(overlay):
            with open(overlay.parents[1] / "base/tallybox.ini", "a", encoding="utf-8") as file:
                file.write("\n[log]\nlevel = debug\n")
        for change, names in ((change_environment, self.environments),
                              (change_settings, lambda objects: self.names(objects, "settings"))):
            changed = self.build(change)
            before, after = names(self.objects), names(changed)
            self.assertEqual((len(before), len(after)), (1, 1))
            self.assertNotEqual(before, after)
            self.assertEqual(changed.of("Job"), self.objects.of("Job"))

    def test_the_job_has_the_settings_of_the_roles(self):
        maps = {re.sub(r"-[a-z0-9]{10}$", "", name): item["data"]
                for name, item in self.objects.of("ConfigMap").items()}
        self.assertEqual(maps["migrate-settings"], maps["settings"])
        self.assertEqual(maps["migrate-environment"], maps["environment"])

    def test_a_changed_password_changes_no_pod(self):
        def change(overlay):
            (overlay / "secrets/relay.password").write_text("another\n")
        changed = self.build(change)
        self.assertEqual(changed.workloads(), self.objects.workloads())
        self.assertNotEqual(changed.of("Secret"), self.objects.of("Secret"))


class Secrets(Case):
    """None is in the repository."""

    def test_the_overlay_makes_them_of_files_that_git_ignores(self):
        self.assertEqual(set(self.objects.of("Secret")),
                         {*(f"{role}-account" for role in (*roles(), "migrate")), "api-tokens"})
        self.assertEqual(self.base.of("Secret"), {})
        with self.assertRaisesRegex(AssertionError, "no such file or directory"):
            kustomize(copy_example(self.work / "bare"))
        secrets = suite.ROOT / FOLDER / OVERLAY / "secrets"
        self.assertEqual((secrets / ".gitignore").read_text(),
                         "*\n!.gitignore\n!kustomization.yaml\n")

    def test_no_other_object_has_one(self):
        for item in self.objects.items:
            if item["kind"] != "Secret":
                self.assertNotIn("a password of", json.dumps(item))
                self.assertNotIn(TOKEN, json.dumps(item))
        for data in (item["data"] for item in self.objects.of("ConfigMap").values()):
            self.assertNotRegex(json.dumps(data).lower(), r"password[\"']?\s*[=:]")


class Autoscaling(Case):
    """The consumers, by their lag."""

    def setUp(self):
        self.scaler = self.objects.one("HorizontalPodAutoscaler", "consume")["spec"]
        self.metric = self.scaler["metrics"][0]["external"]

    def test_it_ends_at_the_number_of_partitions(self):
        partitions = self.containers["relay"].settings()["relay.topic_partitions"]
        self.assertEqual(self.scaler["maxReplicas"], partitions)

    def test_nothing_else_sets_the_number(self):
        target = self.scaler["scaleTargetRef"]
        self.assertNotIn("replicas", self.objects.one(target["kind"], target["name"])["spec"])

    def test_the_metric_is_one_of_the_program_through_the_adapter(self):
        rule, = read_yaml("monitoring/adapter-rules.yaml")[0]["externalRules"]
        self.assertEqual(self.metric["metric"]["name"], rule["seriesQuery"])
        done = subprocess.run([suite.BINARY, "metrics"], capture_output=True, text=True, timeout=60,
                              check=True, env=suite.clean_environment())
        self.assertIn(f"# TYPE {rule['seriesQuery']} gauge\n", done.stdout)

    def test_the_target_is_ten_seconds_of_the_measured_rate(self):
        target = self.metric["target"]
        self.assertEqual(target["type"], "AverageValue")
        records = int(re.fullmatch(r"(\d+)k", target["averageValue"])[1]) * 1000
        mysql = page("docs/performance.md").split("**MySQL", 1)[1]
        rate = float(re.search(r"\| consume: 1 M votes, 20 k contents alike \| ([\d.]+) k/s",
                               mysql)[1]) * 1000
        self.assertAlmostEqual(records / rate, 10, delta=3)


class Scraping(Case):
    """The job for Prometheus, as its rules choose pods."""

    def test_it_finds_the_admin_port_of_every_role(self):
        job, = read_yaml("monitoring/prometheus.yml")[0]["scrape_configs"]
        where, = job["kubernetes_sd_configs"]
        namespaces = {container.workload["metadata"]["namespace"]
                      for container in self.containers.values()}
        self.assertEqual(where, {"role": "pod", "namespaces": {"names": sorted(namespaces)}})
        for container in self.each_role():
            found = []
            of_pod = pod_of(container.workload)["metadata"]["labels"]
            for port in container.spec["ports"]:
                labels = {f"__meta_kubernetes_pod_label_{re.sub(r'[^a-zA-Z0-9_]', '_', key)}": value
                          for key, value in of_pod.items()}
                labels["__meta_kubernetes_pod_container_port_name"] = port["name"]
                if all(re.fullmatch(rule["regex"], labels.get(rule["source_labels"][0], ""))
                       for rule in job["relabel_configs"] if rule.get("action") == "keep"):
                    found.append(port["name"])
            self.assertEqual(found, ["admin"])

    def test_the_labels_of_the_adapter_are_those_of_the_job(self):
        job, = read_yaml("monitoring/prometheus.yml")[0]["scrape_configs"]
        rule, = read_yaml("monitoring/adapter-rules.yaml")[0]["externalRules"]
        self.assertLessEqual(set(rule["resources"]["overrides"]),
                             {one.get("target_label") for one in job["relabel_configs"]})


class PrometheusFile(unittest.TestCase):
    """The file in the eyes of Prometheus. Debian's promtool is built without the discovery of pods,
    so it gets an address instead."""

    any_database = True
    needs = "prometheus"

    def check(self, text):
        work = pathlib.Path(tempfile.mkdtemp(prefix="scrape-", dir=suite.run().folder))
        self.addCleanup(shutil.rmtree, work, ignore_errors=True)
        shutil.copy(suite.ROOT / "docs/alerts.yml", work)
        (work / "prometheus.yml").write_text(text)
        return subprocess.run([f"{os.environ['TALLYBOX_PROMETHEUS']}/promtool", "check", "config",
                               str(work / "prometheus.yml")], capture_output=True, text=True,
                              timeout=120, check=False)

    def test_prometheus_accepts_it(self):
        text, count = re.subn(r"kubernetes_sd_configs:\n(?: {6,}.*\n)+",
                              'static_configs:\n      - targets: ["127.0.0.1:9464"]\n',
                              page(f"{FOLDER}/monitoring/prometheus.yml"))
        self.assertEqual(count, 1)
        done = self.check(text)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("1 rule files found", done.stdout)
        wrong = self.check(text.replace("action: keep", "action: kep", 1))
        self.assertNotEqual(wrong.returncode, 0)


class Played(installation.Installation):
    """The first installation of the page on a real database, and then the command of each container
    with its files and variables. All are on one machine, so each gets ports of its own."""

    needs = "kubernetes"
    seconds = 40

    def setUp(self):
        super().setUp()
        self.topic = f"votes-{self.server.port}"
        self.overlay = copy_example(self.work / "example")
        (self.overlay / "secrets/mysql-ca.crt").write_text("not used on a loopback address\n")
        (self.overlay / "environment.env").write_text(textwrap.dedent(f"""\
            TALLYBOX_MYSQL_HOST=127.0.0.1
            TALLYBOX_MYSQL_PORT={self.server.port}
            TALLYBOX_KAFKA_BOOTSTRAP_SERVERS={suite.kafka().bootstrap}
            TALLYBOX_RELAY_TOPICS=vote={self.topic}
            TALLYBOX_CONSUMER_TOPICS={self.topic}
            """))

    def play_page(self):
        commands = block(page(f"{FOLDER}/README.md"), "sh", "accounts.sh")
        done = subprocess.run(["bash", "-eo", "pipefail", "-c", commands], cwd=self.overlay,
                              capture_output=True, text=True, timeout=120, check=False,
                              env=self.environment())
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def run_job(self, container):
        done = subprocess.run([suite.BINARY, *container.arguments], capture_output=True, text=True,
                              timeout=120, check=False, env=container.environment())
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def start_role(self, container):
        """The port of its admin server."""
        port = suite.free_port()
        words = [suite.BINARY, *container.arguments, "--set", f"admin.listen=127.0.0.1:{port}"]
        if container.role == "serve":
            words += ["--set", f"api.listen=127.0.0.1:{self.api_port}"]
        with open(self.work / f"{container.role}.log", "ab") as log:
            process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *words], stdout=log,
                                       stderr=log, stdin=subprocess.DEVNULL,
                                       env=container.environment())
        self.running[container.role] = process
        self.addCleanup(self.stop, container.role)
        return port

    def probe(self, container, name, port):
        """Whether a probe of the container succeeds."""
        self.assertIsNone(self.running[container.role].poll(), self.logs())
        try:
            answer = suite.http_call(port, "GET", container.spec[name]["httpGet"]["path"])
        except OSError:
            return False
        return answer.status == 200

    def vote(self, token, host):
        return suite.http_call(self.api_port, "POST", "/v1/votes", json.dumps(
            {"voterId": 1, "contentId": 2, "voting": 1}).encode(),
            {"Content-Type": "application/json", "Authorization": f"Bearer {token}", "Host": host})

    def check_memory(self, containers):
        """What the page tells of the roles that have no other bound."""
        base = {role: int(mib) for names, mib in re.findall(
            r"^\| ((?:`\w+`(?:, )?)+) \| (\d+) MiB", page(f"{FOLDER}/README.md"), re.M)
                for role in re.findall(r"\w+", names)}
        self.assertLessEqual({"retry", "rollup", "housekeep"}, set(base))
        for role, process in self.running.items():
            limit = memory_of(containers[role].spec["resources"]["limits"]["memory"]) / MIB
            self.assertLess(suite.peak_rss_mib(process.pid), base.get(role, limit), role)

    def test_from_the_page_to_a_vote_in_the_log(self):
        self.play_page()
        objects = Objects(kustomize(self.overlay))
        containers = {name: Container(objects, objects.workload(name), self.work / "pods" / name)
                      for name in (*roles(), "migrate")}
        self.run_job(containers["migrate"])
        ports = {role: self.start_role(containers[role]) for role in roles()}
        for role, port in ports.items():
            for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                suite.wait_for(f"the {probe} of {role} to succeed",
                               lambda: self.probe(containers[role], probe, port), 120)
        token = (self.overlay / "secrets/tokens").read_text().split()[0]
        self.assertEqual(self.vote("a-wrong-token-of-some-length", "serve").status, 401)
        self.assertEqual(self.vote(token, "another.example.com").status, 421)
        self.assertEqual(self.vote(token, "serve.tallybox.svc").status, 200)
        suite.wait_for("the vote to be in the log", lambda: self.sql(
            "SELECT COUNT(*) FROM tallybox.vote_document") == [(1,)], 120)
        self.assertNotIn("password_file_open", self.logs())
        self.check_memory(containers)
        for role in ports:
            self.stop(role)


if __name__ == "__main__":
    unittest.main()
