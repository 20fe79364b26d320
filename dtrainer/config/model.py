"""The `model` section: what networks look like."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from dtrainer.config.section import Section

Activation = Literal["tanh", "relu", "silu", "swish", "elu", "linear"]
Units = Annotated[int, Field(ge=1)]


class ModelConfig(Section):
    """Options of the built-in networks."""

    fcnet_hiddens: list[Units] = Field(
        default_factory=lambda: [64, 64],
        description="Sizes of the hidden layers of fully connected networks.",
    )
    fcnet_activation: Activation = Field(
        "tanh", description="Nonlinearity after each hidden layer."
    )
    vf_share_layers: bool = Field(
        False, description="Whether the value function shares the policy's hidden layers."
    )
    free_log_std: bool = Field(
        False,
        description="Whether the log deviation of continuous actions is a parameter of its own, "
        "the same for all observations.",
    )
    no_final_linear: bool = Field(
        False, description="Whether the last hidden layer already is the output."
    )
    conv_filters: list[Any] | None = Field(
        None, description="Filters of vision networks: [channels, kernel, stride] each."
    )
    conv_activation: Activation = Field("relu", description="Nonlinearity of vision networks.")
    use_lstm: bool = Field(False, description="Whether an LSTM follows the hidden layers.")
    max_seq_len: int = Field(20, ge=1, description="Longest stretch to propagate back through.")
    lstm_cell_size: int = Field(256, ge=1, description="Units of the LSTM.")
    lstm_use_prev_action_reward: bool = Field(
        False, description="Whether the LSTM sees the last action and reward."
    )
    state_shape: Any = Field(None, description="Shape of a custom model's state.")
    framestack: bool = Field(True, description="Whether Atari frames are stacked by four.")
    dim: int = Field(84, ge=1, description="Edge of a resized Atari frame, pixels.")
    grayscale: bool = Field(False, description="Whether Atari frames are made gray.")
    zero_mean: bool = Field(True, description="Whether pixels are scaled to [-1, 1], not [0, 1].")
    custom_model: str | None = Field(None, description="Name of a registered model.")
    custom_model_config: dict[str, Any] = Field(
        default_factory=dict, description="What the custom model is given."
    )
    custom_action_dist: str | None = Field(
        None, description="Name of a registered action distribution."
    )
    custom_preprocessor: str | None = Field(None, description="Name of a registered preprocessor.")
