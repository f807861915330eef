"""What is done to an instance from outside: resolve, cancel, resurrect, and the like.

None of them needs the workflow's code.
"""

from __future__ import annotations

from typing import Any

import click

from workflow_engine.cli.arguments import parse_value
from workflow_engine.cli.options import (
    COUNTED,
    Where,
    instance_arguments,
    json_option,
    where_options,
)
from workflow_engine.cli.output import describe_instance, print_json
from workflow_engine.cli.report import ERROR
from workflow_engine.cli.words import database_now, standing
from workflow_engine.core.lifecycle import Status


@click.command()
@instance_arguments
@click.argument("step")
@click.argument("value")
@click.option(
    "--generation",
    type=COUNTED,
    help="Only if this generation is the current one.",
)
@where_options
@json_option
@click.pass_context
def resolve(
    ctx: click.Context,
    name: str,
    id: str,
    step: str,
    value: str,
    generation: int | None,
    where: Where,
    as_json: bool,
) -> None:
    """Deliver VALUE to what awaits STEP in an instance, or will.

    NAME is the instance's workflow. VALUE is JSON; text that is not JSON is taken as
    text. The first delivery wins: if STEP was resolved before or the instance has
    ended, nothing changes and the exit code is 1.
    """
    with where.engine() as engine:
        delivered = engine.resolve(
            name, id, step, parse_value(value), generation, returns=Any
        )
        instance = engine.describe(name, id)
    if as_json:
        print_json({"resolved": delivered, **describe_instance(instance)})
    elif delivered:
        click.echo(f"{name} {id}: {step} is resolved")
    else:
        stands = standing(instance, database_now(where))
        click.echo(
            f"{name} {id}: nothing was delivered; {step} was resolved before, or the "
            f"instance has ended or is in another generation. It is {stands}",
            err=True,
        )
    ctx.exit(0 if delivered else ERROR)


@click.command()
@instance_arguments
@click.argument("topic")
@click.argument("value")
@click.option("--key", help="Sending it again with the same key changes nothing.")
@where_options
@json_option
@click.pass_context
def send(
    ctx: click.Context,
    name: str,
    id: str,
    topic: str,
    value: str,
    key: str | None,
    where: Where,
    as_json: bool,
) -> None:
    """Send VALUE to an instance as a message on TOPIC.

    NAME is the instance's workflow. VALUE is JSON; text that is not JSON is taken as
    text. It is kept until the instance takes it. If the instance has completed, or has
    been sent this key before, nothing changes and the exit code is 1.
    """
    with where.engine() as engine:
        sent = engine.send(name, id, topic, parse_value(value), key, returns=Any)
        instance = engine.describe(name, id)
    if as_json:
        print_json({"sent": sent, **describe_instance(instance)})
    elif sent:
        click.echo(f"{name} {id}: sent on {topic}")
    else:
        why = "it has completed" if key is None else "it has completed or has this key"
        click.echo(f"{name} {id}: nothing was sent; {why}", err=True)
    ctx.exit(0 if sent else ERROR)


@click.command()
@instance_arguments
@click.option("--cleanup", is_flag=True, help="Ask it to end, so that it can clean up.")
@click.option("--cascade", is_flag=True, help="Its children, and theirs, as well.")
@where_options
@json_option
@click.pass_context
def cancel(
    ctx: click.Context,
    name: str,
    id: str,
    cleanup: bool,
    cascade: bool,
    where: Where,
    as_json: bool,
) -> None:
    """End an instance now.

    NAME is the instance's workflow. A step that is running may finish; no more are
    begun. The exit code is 1 if it had ended otherwise.
    """
    with where.engine() as engine:
        cancelled = engine.cancel(name, id, cleanup=cleanup, cascade=cascade)
        instance = engine.describe(name, id)
    if as_json:
        print_json({"cancelled": cancelled, **describe_instance(instance)})
    elif instance.status is Status.CANCELLED:
        click.echo(f"{name} {id} is cancelled")
    elif cancelled:
        stands = standing(instance, database_now(where))
        click.echo(f"{name} {id} is asked to end: {stands}")
    else:
        click.echo(f"{name} {id} was not cancelled: it is {instance.status}", err=True)
    ctx.exit(0 if cancelled else ERROR)


@click.command()
@instance_arguments
@click.option(
    "--rerun",
    "again",
    multiple=True,
    metavar="STEP",
    help="A step recorded after the failure that runs again too. May be repeated.",
)
@click.option(
    "--rerun-none", is_flag=True, help="Keep all that was recorded after the failure."
)
@click.option(
    "--forget-cancel",
    is_flag=True,
    help="Take its cancellation back; a cancelled one goes on, too.",
)
@where_options
@json_option
def resurrect(
    name: str,
    id: str,
    again: tuple[str, ...],
    rerun_none: bool,
    forget_cancel: bool,
    where: Where,
    as_json: bool,
) -> None:
    """Make a failed or blocked instance runnable again.

    NAME is the instance's workflow. What failed runs again; what was recorded before it
    stays. If steps were recorded after the failure, such as a compensation, say which
    of them run again.
    """
    if again and rerun_none:
        raise click.UsageError("--rerun and --rerun-none exclude each other")
    rerun = again if again or rerun_none else None
    with where.engine() as engine:
        engine.resurrect(name, id, rerun=rerun, forget_cancel=forget_cancel)
        instance = engine.describe(name, id)
    if as_json:
        print_json(describe_instance(instance))
    else:
        stands = standing(instance, database_now(where))
        click.echo(f"{name} {id} is resurrected: {stands}")


@click.command()
@instance_arguments
@where_options
@json_option
def release(name: str, id: str, where: Where, as_json: bool) -> None:
    """Take an instance away from whoever runs it.

    NAME is the instance's workflow. The owner stops at its next step and can record
    nothing more. Use it when an owner hangs; one that died is replaced by itself.
    """
    with where.engine() as engine:
        released = engine.release_lease(name, id)
        instance = engine.describe(name, id)
    if as_json:
        print_json({"released": released, **describe_instance(instance)})
    else:
        click.echo(f"{name} {id} {'is released' if released else 'was run by nobody'}")


@click.command()
@instance_arguments
@click.argument("position", type=COUNTED)
@where_options
@json_option
def discard(name: str, id: str, position: int, where: Where, as_json: bool) -> None:
    """Turn the wake that blocks an instance into history.

    NAME is the instance's workflow. The wait is open again. The journal shows the
    POSITION.
    """
    with where.engine() as engine:
        engine.discard(name, id, position)
        instance = engine.describe(name, id)
    if as_json:
        print_json(describe_instance(instance))
    else:
        click.echo(f"{name} {id}: entry {position} is history now")
