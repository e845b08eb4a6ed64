//! Prints a run in words, for people.

use crate::action::{Action, Agent, Task};
use crate::baseos::BaseOs;
use crate::device_op::DeviceOp;
use crate::nodeagent::NodeAgent;
use crate::search::Search;
use crate::world::World;
use crate::zedkube::Input;

/// Texts of steps that happen all the time and explain nothing; their lines are left out.
const ROUTINE: [&str; 3] = ["Probe", "Jump", "takes Tick"];

/// The run of these actions, continued without deviations until a promise is broken or everything is at rest.
pub fn tell(search: &Search, actions: &[Action]) -> String {
    let scenario = search.scenario();
    let mut world = search.start().clone();
    let mut lines = String::new();
    for action in actions {
        line(&mut lines, &world, action, search);
        world.apply(action, scenario);
    }
    let mut steps = 0;
    while world.monitor.violation.is_none() && world.next_task(scenario).is_some() && steps < 4_000 {
        line(&mut lines, &world, &Action::Next, search);
        world.apply(&Action::Next, scenario);
        steps += 1;
    }
    let end = world.monitor.violation.as_ref().map_or_else(
        || "all is at rest".to_owned(),
        |violation| format!("BROKEN {}: {}", violation.rule.name(), violation.text),
    );
    lines.push_str(&end);
    lines.push('\n');
    lines
}

fn line(lines: &mut String, world: &World, action: &Action, search: &Search) {
    let words = match action {
        Action::Next => match world.next_task(search.scenario()) {
            Some((_, task)) => task_words(world, &task, search),
            None => return,
        },
        Action::Other(deviation) => {
            let task = match deviation {
                crate::action::Deviation::Turn(task) => task_words(world, task, search),
                _ => String::new(),
            };
            format!("*** {deviation:?} {task}")
        }
    };
    let is_routine = matches!(action, Action::Next) && ROUTINE.iter().any(|word| words.contains(word));
    if !words.is_empty() && !is_routine {
        let moment = format!("boot {} {:>7} ms  ", world.boot, world.now);
        lines.extend([moment.as_str(), &words, "\n"]);
    }
}

/// The words of a step. The second and later parts of a poll give no line.
fn task_words(world: &World, task: &Task, search: &Search) -> String {
    match task {
        Task::Effect(agent) => format!("{agent:?} does {}", short(&effect(world, *agent))),
        Task::Take(Input::Answer(place)) => {
            let answer = world.zedkube.up().and_then(|zedkube| zedkube.calls.get(*place));
            format!("Zedkube takes {}", short(&format!("{:?}", answer.and_then(|call| call.answer.clone()))))
        }
        Task::Take(input) => {
            let phase = world.zedkube.up().map_or("", |zedkube| zedkube.state.phase.name());
            format!("Zedkube ({phase}) takes {input:?}")
        }
        Task::Look(agent) if is_within_look(world, *agent) => String::new(),
        Task::Look(agent) => {
            let phase = match agent {
                Agent::DeviceOp => world.device_op.up().map(|agent| format!("{:?}", agent.state.phase)),
                Agent::BaseOs => world.baseos.up().map(|agent| format!("{:?}", agent.state.phase)),
                Agent::NodeAgent => {
                    world.nodeagent.up().map(|agent| short(&format!("{:?}", agent.state.phase)))
                }
                Agent::Zedkube => None,
            };
            format!("{agent:?} ({}) reads", phase.unwrap_or_default())
        }
        Task::Serve(place) => {
            let call = world.zedkube.up().and_then(|zedkube| zedkube.calls.get(*place));
            format!("the server serves {}", short(&format!("{:?}", call.map(|call| call.ask.clone()))))
        }
        Task::Script => format!("{:?}", search.scenario().script.get(world.ordered)),
        other => format!("{other:?}"),
    }
}

fn is_within_look(world: &World, agent: Agent) -> bool {
    match agent {
        Agent::DeviceOp => world.device_op.up().is_some_and(DeviceOp::is_looking),
        Agent::BaseOs => world.baseos.up().is_some_and(BaseOs::is_looking),
        Agent::NodeAgent => world.nodeagent.up().is_some_and(NodeAgent::is_looking),
        Agent::Zedkube => false,
    }
}

fn effect(world: &World, agent: Agent) -> String {
    let text = match agent {
        Agent::Zedkube => world.zedkube.up().map(|zedkube| format!("{:?}", zedkube.todo.front())),
        Agent::DeviceOp => world.device_op.up().map(|agent| format!("{:?}", agent.todo.front())),
        Agent::BaseOs => world.baseos.up().map(|agent| format!("{:?}", agent.todo.front())),
        Agent::NodeAgent => world.nodeagent.up().map(|agent| format!("{:?}", agent.todo.front())),
    };
    text.unwrap_or_default()
}

fn short(text: &str) -> String {
    text.chars().take(150).collect()
}
