"""``sidecar policy``: check, test and run a policy bundle; ``policy_release`` packs them."""

import asyncio

import click

from sidecar.app.loading import load_config
from sidecar.cli.options import common, emit
from sidecar.cli.policy_offer import approve, deny, pending
from sidecar.cli.policy_release import build, verify
from sidecar.errors import ExitCode, SidecarError
from sidecar.gateway.policy.bundle import Bundle
from sidecar.gateway.policy.driver import RuleTest, check_bundle, run_tests
from sidecar.gateway.policy.files import load_bundle
from sidecar.gateway.policy.lint import Finding
from sidecar.gateway.policy.result import PolicyAnswer
from sidecar.gateway.policy.worker import PolicyWorker
from sidecar.gateway.strict import NotStrict, read_json
from sidecar.plain import plain, plained


@click.group("policy")
def command() -> None:
    """Check, test, run, pack and verify policy bundles (folders of Rego, or archives of them;
    default: the configured one).

    \b
    Example:
      $ sidecar policy decide policies/ --input call.json
      require_approval  amount_needs_approval: it costs 120.00 EUR; from 100.00 on a person approves
    """


command.add_command(build)
command.add_command(verify)
command.add_command(pending)
command.add_command(approve)
command.add_command(deny)


@command.command("check")
@click.argument("folder", required=False)
@common()
def check(folder: str | None, config: str | None, store: str | None, output: str) -> None:
    """Parse and lint a bundle; exit 1 when there are findings.

    \b
    Example:
      $ sidecar policy check policies/
      13 modules, no findings, revision sha256:0339…
    """
    bundle = _bundle(folder, config, store)
    findings = asyncio.run(check_bundle(bundle))
    shown = {"revision": bundle.revision, "findings": findings}
    emit(shown, output, lambda: _findings_text(bundle, findings))
    if findings:
        raise click.exceptions.Exit(ExitCode.FAILED)


@command.command("test")
@click.argument("folder", required=False)
@common()
def test(folder: str | None, config: str | None, store: str | None, output: str) -> None:
    """Run the bundle's own tests (rules test_…) on the embedded engine; exit 1 when one fails.

    \b
    Example:
      $ sidecar policy test policies/
      96 of 96 tests passed
    """
    results = asyncio.run(run_tests(_bundle(folder, config, store, tests=True)))
    if not results:
        raise SidecarError(
            "the bundle has no tests",
            where=folder or "policy.bundle",
            do="Write rules named test_… in files named …_test.rego.",
            code=ExitCode.UNDECIDED,
        )
    emit(results, output, lambda: _tests_text(results))
    if any(result.status != "pass" for result in results):
        raise click.exceptions.Exit(ExitCode.FAILED)


@command.command("decide")
@click.argument("folder", required=False)
@click.option(
    "--input",
    "input_file",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True),
    required=True,
    help="The document to judge, as JSON (schema: policies/schema/input.json).",
)
@common()
def decide(
    folder: str | None, input_file: str, config: str | None, store: str | None, output: str
) -> None:
    """Judge one document and print the answer; exit 2 where the policy has none.

    \b
    Example:
      $ sidecar policy decide policies/ --input call.json
      require_approval  amount_needs_approval: it costs 120.00 EUR; from 100.00 on a person approves
    """
    bundle = _bundle(folder, config, store)
    answer = asyncio.run(_decide(bundle, _document(input_file)))
    emit(answer, output, lambda: _answer_text(answer))
    if answer.error is not None:
        raise click.exceptions.Exit(ExitCode.UNDECIDED)


def _bundle(
    folder: str | None, config: str | None, store: str | None, *, tests: bool = False
) -> Bundle:
    if folder is not None:
        return load_bundle(folder, tests=tests)
    loaded = load_config(config, store)
    configured = loaded.config.policy.bundle
    return load_bundle(loaded.path(configured) if configured else "", tests=tests)


def _document(input_file: str) -> dict[str, object]:
    with click.open_file(input_file, "rb") as file:
        content = file.read()
    try:
        document = read_json(content)
    except NotStrict as error:
        raise SidecarError(f"the input is not strict JSON: {error}", where=input_file) from error
    if not isinstance(document, dict):
        raise SidecarError("the input is no JSON object", where=input_file)
    return document


async def _decide(bundle: Bundle, document: dict[str, object]) -> PolicyAnswer:
    worker = PolicyWorker(bundle, deadline_ns=2_000_000_000)
    await worker.start()
    try:
        return await worker.decide(document)
    finally:
        await worker.stop()


def _findings_text(bundle: Bundle, findings: tuple[Finding, ...]) -> str:
    if not findings:
        return f"{len(bundle.modules)} modules, no findings, revision {bundle.revision}"
    return "\n".join(plain(str(each)) for each in findings)


def _tests_text(results: tuple[RuleTest, ...]) -> str:
    results = plained(results)
    failed = [result for result in results if result.status != "pass"]
    lines = [f"{each.file}: {each.name}: {each.status}: {each.detail}" for each in failed]
    return "\n".join([*lines, f"{len(results) - len(failed)} of {len(results)} tests passed"])


def _answer_text(answer: PolicyAnswer) -> str:
    answer = plained(answer)
    lines = [f"{answer.effect}  {reason.code}: {reason.message}" for reason in answer.reasons]
    return "\n".join(lines or [answer.effect])
